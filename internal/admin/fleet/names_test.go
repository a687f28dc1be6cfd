package fleet

import (
	"slices"
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	tests := []struct {
		name, names, others, want string
	}{
		{"one", "a", "b", "a"},
		{"the only one", "a", "", "a"},
		{"all", "a b c d e", "", "all nodes"},
		{"few", "rack-7-1 rack-7-2 rack-7-3 rack-7-4", "x", "rack-7-1, rack-7-2, rack-7-3, rack-7-4"},
		{"a whole rack", "rack-7-1 rack-7-2 rack-7-3 rack-7-4 rack-7-5", "rack-8-1", "rack-7-*"},
		{"a part of a rack", "rack-7-1 rack-7-2 rack-7-3 rack-7-4 rack-7-5", "rack-7-6 rack-8-1", "rack-7-* (5 of 6)"},
		{"two racks", "rack-7-1 rack-7-2 rack-7-3 rack-9-4 rack-9-5", "rack-8-1", "rack-7-*, rack-9-*"},
		{"two pools", "db-1 db-2 web-1 web-2 web-3", "x", "db-*, web-*"},
		{"a pool and one more", "db-1 web-1 web-2 web-3 web-4", "x", "db-1, web-*"},
		{"five racks", "rack-1-1 rack-2-1 rack-3-1 rack-4-1 rack-5-1", "x", "rack-*"},
		{"domains", "n-1.example.com n-2.example.com n-3.example.com n-4.example.com n-5.example.com", "x", "n-*"},
		{"a name is a part of another", "n-1 n-1-a n-1-b n-1-c n-1-d", "x", "n-*"},
		{"no separator", "web01 web02 web03 web04 web05", "db01", "web*"},
		{"no separator, two pools", "db01 db02 web01 web02 web03", "x", "db*, web*"},
		{"addresses", "ip-10-0-1-11.ec2.internal ip-10-0-1-12.ec2.internal ip-10-0-1-13.ec2.internal ip-10-0-1-14.ec2.internal ip-10-0-1-9.ec2.internal", "x", "ip-10-0-1-*"},
		{"only numbers", "1 2 3 4 5", "x", "1, 2, 3 and 2 more"},
		{"nothing in common", "a bb c d e f", "x", "a, bb, c and 3 more"},
		{"five pools", "a-1 b-1 c-1 d-1 e-1", "x", "a-1, b-1, c-1 and 2 more"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			names := strings.Fields(test.names)
			all := nameSet(append(strings.Fields(test.others), names...))
			slices.Sort(all)
			if got := all.summary(names); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestNumber(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 4988: "4,988", 1234567: "1,234,567"} {
		if got := number(n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestMask(t *testing.T) {
	r := Result{Node: "n1", Pod: "p-1", addresses: []string{"192.0.2.1", "2001:db8::1"}}
	for text, want := range map[string]string{
		"":                    "",
		"10.0.0.2:53 is down": "10.0.0.2:53 is down",
		"n1 cannot listen on 192.0.2.1:53: in use":       "NODE cannot listen on NODE_IP:53: in use",
		"[2001:db8::1]:53, 2001:db8::1 and n11":          "NODE_IP:53, NODE_IP and n11",
		"3 of 40 failed (7.5%), for 1m30s; since 14:02.": "_ of _ failed (_), for _; since _.",
		"at 2026-11-27T14:02:11Z":                        "at _",
		"version 1.2.3 on port 53/udp":                   "version 1.2.3 on port 53/udp",
		"two  spaces ( ) ...":                            "two  spaces ( ) ...",
		`pods "p-1" is forbidden`:                        `pods "POD" is forbidden`,
	} {
		if got := strings.ReplaceAll(mask(text, r).key(), slot, "_"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestCompareValues(t *testing.T) {
	sorted := []string{"2", "9.5", "10", "50%"}
	durations := []string{"5ms", "1s", "59s", "1m1s", "1h", "2d", "2d1h", "10d"}
	for _, values := range [][]string{sorted, durations, {"13:59", "14:02:11"}} {
		if !slices.IsSortedFunc(values, compareValues) || compareValues(values[0], values[1]) >= 0 {
			t.Errorf("%v are not in order", values)
		}
	}
}
