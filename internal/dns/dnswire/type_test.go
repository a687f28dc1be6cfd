package dnswire

import "testing"

func TestTypeText(t *testing.T) {
	for number, want := range map[uint16]string{0: "TYPE0", 1: "A", 28: "AAAA", 65: "HTTPS", 255: "ANY", 65280: "TYPE65280", 65535: "TYPE65535"} {
		if got := TypeText(number); got != want {
			t.Errorf("%d: got %s, want %s", number, got, want)
		}
	}
}

func TestParseType(t *testing.T) {
	for text, want := range map[string]int{
		"A": 1, "aaaa": 28, "HTTPS": 65, "any": 255, "TYPE1": 1, "type65280": 65280, "TYPE65535": 65535, "TYPE0": 0,
		"": -1, "TYPE": -1, "TYPE65536": -1, "TYPE+1": -1, "TYPE-1": -1, "None": -1, "Reserved": -1, "BOGUS": -1,
	} {
		got, ok := ParseType(text)
		if ok != (want >= 0) || ok && int(got) != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, ok, want)
		}
	}
}
