package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// statTail is the text after the name: state, parent and so on; utime 150, stime 250, cutime 30,
// cstime 20.
const statTail = "S 17 4242 4242 0 -1 4194560 1000 0 0 0 150 250 30 20 20 0 4 0 12345 123456789 2000 18446744073709551615 1 1 0 0 0 0"

func TestParseStat(t *testing.T) {
	for _, test := range []struct {
		name, text, want string
	}{
		{"usual", "4242 (unbound) " + statTail, `{unbound 17 4s 500ms} <nil>`},
		{"blanks and parentheses in the name", "4242 (a) (b c) " + statTail, `{a) (b c 17 4s 500ms} <nil>`},
		{"no name", "4242 unbound " + statTail, `{ 0 0s 0s} parsing a process's stat: no name in "4242 unbound ` + statTail + `"`},
		{"cut short", "4242 (unbound) S 17", `{ 0 0s 0s} parsing a process's stat: 2 fields after the name`},
		{"no number", "4242 (unbound) " + strings.Replace(statTail, "150", "x", 1), `{ 0 0s 0s} parsing a process's stat: strconv.ParseInt: parsing "x": invalid syntax`},
	} {
		t.Run(test.name, func(t *testing.T) {
			stat, err := parseStat(test.text)
			if got := fmt.Sprint("{", stat.name, " ", stat.parent, " ", stat.cpu, " ", stat.dead, "} ", err); got != test.want {
				t.Errorf("got %s\nwant %s", got, test.want)
			}
		})
	}
}

// FuzzParseStat: the CPU time is found whatever the process name is.
func FuzzParseStat(f *testing.F) {
	for _, name := range []string{"unbound", "a) (b c", "", "\n", "(sd-pam)"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		stat, err := parseStat("4242 (" + name + ") " + statTail)
		if err != nil || stat.name != name || stat.parent != 17 || stat.cpu != 4*time.Second || stat.dead != 500*time.Millisecond {
			t.Errorf("%q: %v, %v", name, stat, err)
		}
	})
}

const procStatText = `cpu  500 1 100 9000 50 2 20 3 0 0
cpu0 100 1 50 4000 25 2 10 3 0 0
cpu1 400 0 50 5000 25 0 10 0 0 0
cpu10 9 9 9 9 9 9 9 9 0 0
intr 1 2 3
ctxt 99
`

func TestParseBusy(t *testing.T) {
	for _, test := range []struct {
		name string
		cpus []int
		want string
	}{
		{"counts steal time, not idle, iowait or guest", []int{0}, "1.66s <nil>"},
		{"two CPUs", []int{0, 1}, "6.26s <nil>"},
		{"CPU 10 is not CPU 1", []int{10}, "540ms <nil>"},
		{"a missing CPU", []int{0, 2}, "0s parsing /proc/stat: found 1 of 2 CPUs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			busy, err := parseBusy(procStatText, test.cpus)
			if got := fmt.Sprint(busy, err); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestParseStatus(t *testing.T) {
	const text = "Name:\tunbound\nVmHWM:\t   20480 kB\nVmRSS:\t   10240 kB\nThreads:\t2\nVmLib:\tmuch kB\n"
	for _, test := range []struct{ name, key, want string }{
		{"resident", "VmRSS", "10485760 <nil>"},
		{"peak", "VmHWM", "20971520 <nil>"},
		{"missing, because the process has ended", "VmSwap", "0 parsing a process's status: no VmSwap"},
		{"no number", "VmLib", `0 parsing VmLib: strconv.ParseInt: parsing "much": invalid syntax`},
	} {
		t.Run(test.name, func(t *testing.T) {
			size, err := parseStatus(text, test.key)
			if got := fmt.Sprint(size, err); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
