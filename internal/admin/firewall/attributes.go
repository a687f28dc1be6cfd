package firewall

import (
	"cmp"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// errMalformed means that an attribute does not fit its message.
var errMalformed = errors.New("malformed netlink attribute")

// attributes are netlink attributes by type. If a type occurs twice, the last one wins.
type attributes map[uint16][]byte

const attributeType = 0x3fff // NLA_TYPE_MASK: without the flags "nested" and "network byte order"

// parseAttributes splits a message (netlink(7), struct nlattr).
func parseAttributes(b []byte) (attributes, error) {
	all := attributes{}
	err := eachAttribute(b, func(kind uint16, value []byte) { all[kind] = value })
	return all, err
}

// parseList splits a list, and each of its elements.
func parseList(b []byte) (all []attributes, err error) {
	malformed := eachAttribute(b, func(_ uint16, value []byte) {
		one, failed := parseAttributes(value)
		all, err = append(all, one), cmp.Or(err, failed)
	})
	return all, cmp.Or(malformed, err)
}

func eachAttribute(b []byte, each func(kind uint16, value []byte)) error {
	const header = unix.SizeofNlAttr
	for len(b) > 0 {
		if len(b) < header {
			return errMalformed
		}
		size := int(binary.NativeEndian.Uint16(b))
		if size < header || size > len(b) {
			return errMalformed
		}
		each(binary.NativeEndian.Uint16(b[2:])&attributeType, b[header:size])
		b = b[min(len(b), (size+3)&^3):]
	}
	return nil
}

// number returns a 32-bit attribute. Those of nf_tables are in network byte order.
func (a attributes) number(kind uint16) (uint32, bool) {
	if len(a[kind]) != 4 {
		return 0, false
	}
	return binary.BigEndian.Uint32(a[kind]), true
}

// orZero returns a 32-bit attribute, or 0 if it is missing.
func (a attributes) orZero(kind uint16) uint32 {
	n, _ := a.number(kind)
	return n
}

// text returns a string attribute without its final zero byte.
func (a attributes) text(kind uint16) string { return unix.ByteSliceToString(a[kind]) }

// nested returns the attributes inside an attribute, or nil if it is malformed.
func (a attributes) nested(kind uint16) attributes {
	inner, err := parseAttributes(a[kind])
	if err != nil {
		return nil
	}
	return inner
}

// value returns the data inside an attribute (NFTA_DATA_VALUE), as registers hold it.
func (a attributes) value(kind uint16) []byte { return a.nested(kind)[unix.NFTA_DATA_VALUE] }
