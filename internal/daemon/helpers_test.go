package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/miekg/dns"
)

// write creates or replaces a file, and creates its directories. It does nothing if text is empty.
// It replaces the file at once: the looks of these tests are so close that two of them can agree on
// a file that is still being written.
func write(t testing.TB, path, text string) {
	t.Helper()
	if text == "" {
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	partial := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)) // dnsmasq and node-dns skip hidden files
	if err := os.WriteFile(partial, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(partial, path); err != nil {
		t.Fatal(err)
	}
}

func firstValue(m *dns.Msg) string {
	if len(m.Answer) == 0 {
		return ""
	}
	switch rr := m.Answer[0].(type) {
	case *dns.A:
		return rr.A.String()
	case *dns.AAAA:
		return rr.AAAA.String()
	case *dns.TXT:
		return rr.Txt[0]
	case *dns.PTR:
		return rr.Ptr
	}
	return m.Answer[0].String()
}
