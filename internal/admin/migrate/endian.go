package migrate

import "encoding/binary"

// isLittleEndian is how this machine orders the octets of a word; s390x does not.
var isLittleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1
