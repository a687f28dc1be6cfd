package dnswire

import "testing"

func TestTypeText(t *testing.T) {
	for number, want := range map[uint16]string{0: "TYPE0", 1: "A", 28: "AAAA", 65: "HTTPS", 255: "ANY", 65280: "TYPE65280", 65535: "TYPE65535"} {
		if got := TypeText(number); got != want {
			t.Errorf("%d: %s, expected %s", number, got, want)
		}
	}
}
