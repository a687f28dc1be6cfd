package resolvconf

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func addrs(text ...string) []netip.Addr {
	var list []netip.Addr
	for _, one := range text {
		list = append(list, netip.MustParseAddr(one))
	}
	return list
}

func TestSetNameservers(t *testing.T) {
	one := addrs("10.0.0.9")
	tests := []struct {
		name, text string
		set        []netip.Addr
		want       string
	}{
		{"empty file", "", one, "nameserver 10.0.0.9\n"},
		{"no nameserver", "search a.example\n", one, "search a.example\nnameserver 10.0.0.9\n"},
		{"at the first nameserver", "a\nnameserver 10.0.0.2\nb\nnameserver 10.0.0.3\nc\n", addrs("10.0.0.8", "fe80::1%eth0"), "a\nnameserver 10.0.0.8\nnameserver fe80::1%eth0\nb\nc\n"},
		{"replaces an invalid nameserver", "nameserver nobody\nb\n", one, "nameserver 10.0.0.9\nb\n"},
		{"replaces a bare keyword", "nameserver\nb\n", one, "nameserver 10.0.0.9\nb\n"},
		{"no final newline", "nameserver 10.0.0.2", one, "nameserver 10.0.0.9\n"},
		{"other lines stay", " nameserver 8.8.8.8\n#nameserver 9.9.9.9\nnameserverX 1\n", one, " nameserver 8.8.8.8\n#nameserver 9.9.9.9\nnameserverX 1\nnameserver 10.0.0.9\n"},
		{"order", "nameserver 10.0.0.2\nnameserver 10.0.0.3\n", addrs("10.0.0.3", "10.0.0.2"), "nameserver 10.0.0.3\nnameserver 10.0.0.2\n"},
		{"same addresses, other formatting", "nameserver\t2001:DB8::1 \nx\nnameserver 10.0.0.9\n", addrs("2001:db8::1", "10.0.0.9"), "nameserver\t2001:DB8::1 \nx\nnameserver 10.0.0.9\n"},
		// The kubelet parsed the words of the comment as nameservers (openshift-ansible #1950).
		{"a comment after the address is removed", "nameserver 10.0.0.9 # updated by\n", one, "nameserver 10.0.0.9\n"},
		{"an invalid nameserver is removed", "nameserver 10.0.0.9\nnameserver x\n", one, "nameserver 10.0.0.9\n"},
		{"none", "a\nnameserver 10.0.0.2\nb\n", nil, "a\nb\n"},
		{"no address", "nameserver 10.0.0.2\n", []netip.Addr{{}}, ""},
		{"zone id with a line feed", "", []netip.Addr{netip.MustParseAddr("fe80::1").WithZone("x\nnameserver 8.8.8.8"), one[0]}, "nameserver 10.0.0.9\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := Parse([]byte(tt.text))
			f.SetNameservers(tt.set)
			if diff := cmp.Diff(tt.want, string(f.Bytes())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSetSearch(t *testing.T) {
	two := []string{"cluster.local", "A.Example"}
	line := "search cluster.local A.Example\n"
	tests := []struct {
		name, text string
		set        []string
		want       string
	}{
		{"empty file", "", two, line},
		{"at the end", "nameserver 10.0.0.2", two, "nameserver 10.0.0.2\n" + line},
		{"in place", "a\nsearch x\nb\n", two, "a\n" + line + "b\n"},
		{"several lines become one, at the last line", "search x\na\nsearch y\nb\nsearch\nc\n", two, "a\nb\n" + line + "c\n"},
		{"domain before", "domain corp.example\nsearch x\nb\n", two, "domain corp.example\n" + line + "b\n"},
		{"domain after", "search x\na\ndomain corp.example\nb\n", two, "a\ndomain corp.example\n" + line + "b\n"},
		{"domain after the correct list", line + "domain corp.example\n", two, "domain corp.example\n" + line},
		{"empty domain after", "search x\ndomain\n", two, line + "domain\n"},
		{"domain only", "domain corp.example\nnameserver 10.0.0.2\n", two, "domain corp.example\nnameserver 10.0.0.2\n" + line},
		{"same list, other formatting", "search\tcluster.local.  A.Example\n", two, "search\tcluster.local.  A.Example\n"},
		{"different case is different text", "search cluster.local a.example\n", two, line},
		{"final dots and root", "", []string{"cluster.local.", ".", "A.Example"}, line},
		{"none", "a\nsearch x\nsearch y\n", nil, "a\n"},
		{"the keyword alone", "a\nsearch\n", nil, "a\n"},
		{"list without usable names", "search .\n", nil, "search .\n"},
		{"not names", "", []string{"cluster.local", "", "a b", "x\nnameserver 8.8.8.8", "$(reboot)", "*", "a/b", "\xff", strings.Repeat("a", 64<<10), "A.Example"}, "search cluster.local * A.Example\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := Parse([]byte(tt.text))
			given := append([]string(nil), tt.set...)
			f.SetSearch(tt.set)
			if diff := cmp.Diff(tt.want, string(f.Bytes())); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(given, tt.set); diff != "" {
				t.Errorf("changed the caller's list: %s", diff)
			}
		})
	}
}

func TestPrependLine(t *testing.T) {
	tests := []struct{ name, comment, want string }{
		{"comment", watermark, watermark},
		{"semicolon", "; hello", "; hello"},
		{"directive", "nameserver 8.8.8.8", "# nameserver 8.8.8.8"},
		{"empty", "", "# "},
		{"line breaks", "# a\nnameserver 8.8.8.8\r\nx", "# a nameserver 8.8.8.8  x"},
		{"controls", "# a\x00\x1b[0m\x85\u0085\u2028b", "# a  [0m\ufffd  b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := Parse([]byte("search a.example\n"))
			f.PrependLine(tt.comment)
			if diff := cmp.Diff(tt.want+"\nsearch a.example\n", string(f.Bytes())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRemoveComment(t *testing.T) {
	const stub = "# This is /run/systemd/resolve/stub-resolv.conf managed by man:systemd-resolved(8).\n# Do not edit.\n#\n# See it.\n"
	tests := []struct{ name, text, want string }{
		{"with the blank line after it", stub + "\nnameserver 127.0.0.53\n", "nameserver 127.0.0.53\n"},
		{"lines before it stay", "# site\n\n" + stub + "nameserver 127.0.0.53\n# end\n", "# site\n\nnameserver 127.0.0.53\n# end\n"},
		{"twice", stub + "\n" + stub, ""},
		{"nothing else", stub, ""},
		{"another comment", "# Generated by NetworkManager\n\nsearch a\n", "# Generated by NetworkManager\n\nsearch a\n"},
		{"no comment", "options managed by man:systemd-resolved(8)\n", "options managed by man:systemd-resolved(8)\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := Parse([]byte(tt.text))
			f.RemoveComment("managed by man:systemd-resolved(8)")
			if diff := cmp.Diff(tt.want, string(f.Bytes())); diff != "" {
				t.Error(diff)
			}
		})
	}
}
