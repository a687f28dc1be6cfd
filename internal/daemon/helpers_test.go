package daemon

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/dns/forward"
)

func listenText(addrs []netip.AddrPort) string {
	var words []string
	for _, addr := range addrs {
		words = append(words, addr.String())
	}
	return strings.Join(words, " ")
}

func routeText(routes []forward.Route) string { return strings.Join(routeWords(routes), " ") }

// write makes a file with its directories; no text, no file.
func write(t testing.TB, path, text string) {
	t.Helper()
	if text == "" {
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
