package helper

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/intercept"
)

// TestByteOrder: marks are compared in the byte order of this machine, because the kernel loads
// them from its own field; ports and addresses are compared in network byte order. The lane for
// other architectures runs this on s390x, which is big-endian, where nf_tables cannot be tested.
func TestByteOrder(t *testing.T) {
	addr := netip.MustParseAddr
	node := addr("10.0.0.5")
	marks, ports, addrs, targets := 0, 0, 0, 0
	for _, r := range rulesFor([]served{{addr(cluster4), intercept.Local, netip.Addr{}}, {addr(cluster4), intercept.Translated, node}}, boundSockets) {
		for i, e := range r.exprs {
			if im, ok := e.(*expr.Immediate); ok {
				targets++
				if !bytes.Equal(im.Data, []byte{10, 0, 0, 5}) {
					t.Errorf("the translation has the address % x", im.Data)
				}
			}
			compare, ok := e.(*expr.Cmp)
			if !ok {
				continue
			}
			switch load := r.exprs[i-1].(type) {
			case *expr.Meta:
				if load.Key == expr.MetaKeyMARK {
					marks++
					if got := binary.NativeEndian.Uint32(compare.Data); got != probeMark {
						t.Errorf("got the mark %#x, want %#x", got, probeMark)
					}
				}
			case *expr.Payload:
				want, n := []byte{0, 53}, &ports
				if load.Base == expr.PayloadBaseNetworkHeader {
					want, n = []byte{10, 96, 0, 10}, &addrs
				}
				*n++
				if !bytes.Equal(compare.Data, want) {
					t.Errorf("payload at %d: got % x, want % x", load.Offset, compare.Data, want)
				}
			}
		}
	}
	// For each protocol: six rules of the first address, and two of the second.
	if marks != 1 || ports != 16 || addrs != 16 || targets != 4 {
		t.Errorf("got %d marks, %d ports, %d addresses and %d translations", marks, ports, addrs, targets)
	}
}

// TestTableBytes: the message that creates the table has its flags in network byte order
// (NFTA_TABLE_FLAGS is NLA_U32 in be32), and its header in the byte order of this machine.
func TestTableBytes(t *testing.T) {
	data, err := ownedTable()
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	attribute := func(kind uint16, payload []byte) {
		want = binary.NativeEndian.AppendUint16(want, uint16(4+len(payload))) // struct nlattr
		want = binary.NativeEndian.AppendUint16(want, kind)
		want = append(want, payload...)
		for len(want)%4 != 0 {
			want = append(want, 0)
		}
	}
	attribute(unix.NFTA_TABLE_NAME, []byte("node-dns\x00"))
	attribute(unix.NFTA_TABLE_FLAGS, []byte{0, 0, 0, ownerFlag})
	if !bytes.Equal(data, want) {
		t.Errorf("got  % x\nwant % x", data, want)
	}
}
