package exchange

import (
	"strings"
	"testing"
)

// TestPaddingOfEveryLength: a name of any length is padded to a multiple of the block size.
func TestPaddingOfEveryLength(t *testing.T) {
	for n := 1; n <= 63; n++ {
		wire, err := Question{Name: strings.Repeat("a", n) + ".example."}.wire(Padded, DefaultUDPSize)
		if err != nil || len(wire)%paddingBlock != 0 {
			t.Errorf("label of %d: %d octets, %v", n, len(wire), err)
		}
	}
}

func TestNameTooLong(t *testing.T) {
	if _, err := (Question{Name: strings.Repeat("a.", 200)}).wire(WithEDNS, DefaultUDPSize); err == nil {
		t.Error("packed a name of 400 octets")
	}
}
