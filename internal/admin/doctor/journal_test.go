package doctor

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestParseJournal(t *testing.T) {
	const text = `{"MESSAGE":"AVC avc:  denied","__REALTIME_TIMESTAMP":"1700000000123456","_AUDIT_ID":"45"}
not JSON
{"MESSAGE":[110,195,40],"EXECUTABLE":["/bin/a","/bin/b"],"LONG":null,"EMPTY":[],"NESTED":[[[1]]]}
{"MESSAGE":["\u001b[2J"],"NUMBER":7}
`
	want := []logEntry{
		{"MESSAGE": "AVC avc:  denied", "__REALTIME_TIMESTAMP": "1700000000123456", "_AUDIT_ID": "45"},
		{"MESSAGE": "n\xc3(", "EXECUTABLE": "/bin/a"},
		{"MESSAGE": "\x1b[2J"},
	}
	got := parseJournal(text)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if at := got[0].time(); at.Format("2006-01-02T15:04:05.000000") != "2023-11-14T22:13:20.123456" || !got[1].time().IsZero() {
		t.Errorf("got times %v, %v", at, got[1].time())
	}
}

// FuzzParseJournal proves that parsing entries in the format of journalctl gives the same entries.
func FuzzParseJournal(f *testing.F) {
	f.Add("{\"MESSAGE\":\"a\"}\n{\"MESSAGE\":[255,1],\"A\":[\"b\",\"c\"]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		entries := parseJournal(text)
		var again []byte
		for _, entry := range entries {
			fields := map[string]any{}
			for name, value := range entry {
				fields[name] = value
				if !utf8.ValidString(value) {
					var numbers []int
					for _, octet := range []byte(value) {
						numbers = append(numbers, int(octet))
					}
					fields[name] = numbers
				}
			}
			line, err := json.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			again = append(append(again, line...), '\n')
		}
		if diff := cmp.Diff(entries, parseJournal(string(again))); diff != "" {
			t.Errorf("(-first +again):\n%s", diff)
		}
	})
}
