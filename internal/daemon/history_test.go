package daemon

import (
	"encoding/json"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestServerHistory: the history names the cause of each kind of server change, and survives a
// restart.
func TestServerHistory(t *testing.T) {
	t.Parallel()
	a, b, c := dnstest.NewServer(t, siteRecords), dnstest.NewServer(t, siteRecords), dnstest.NewServer(t, siteRecords)
	files := map[string]string{upstreamPath: upstreamFile(a)}
	r := start(t, files)
	history := func() control.ServerHistory {
		h, err := control.FetchServerHistory(t.Context(), control.SocketPath(r.root))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	last := func() control.RouteChange { h := history(); return h.Changes[len(h.Changes)-1] }
	asks := func(server *dnstest.Server) func() bool {
		return func() bool { return r.servers() != nil && r.servers()[0] == server.Addr().String() }
	}

	// The hook's files, in the order in which it writes them.
	record := map[string]any{"version": 1, "servers": []netip.AddrPort{b.Addr()}, "origin": "NetworkManager", "detail": "eth0", "event": "eth0 dhcp4-change"}
	text, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.root, "/var/lib/node-dns/upstreams.json"), string(text))
	write(t, filepath.Join(r.root, upstreamPath), upstreamFile(b))
	r.await("the hook's", asks(b))
	if by := last().By; by != "origin-dns-dispatcher: eth0 dhcp4-change" && !strings.HasPrefix(by, "file: ") { // seen between the two files
		t.Errorf("the hook's change is reported as %q", by)
	}

	// A changed file, followed by a reload before the daemon sees the file.
	write(t, filepath.Join(r.root, "/etc/node-dns/node-dns.yaml"), "upstreams: [\""+c.Addr().String()+"\"]\n")
	if err := r.daemon.reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.await("the file's", asks(c))
	if by := last().By; by != "SIGHUP" && !strings.HasPrefix(by, "file: ") {
		t.Errorf("a file's change is reported as %q", by)
	}
	h := history()
	if first := h.Changes[0]; first.By != startReason || len(first.Differences) != 1 {
		t.Errorf("first change %+v", first)
	}
	if status := r.status(); status.Changed == nil || status.Changed.By != last().By {
		t.Errorf("the status has %+v", status.Changed)
	}

	next, err := New(Config{Root: r.root})
	if err != nil {
		t.Fatal(err)
	}
	next.view.NoteRoutes(startReason, r.daemon.policy().Routes)
	after := next.view.ServerHistory(t.Context())
	if n := len(h.Changes); len(after.Changes) != n+1 || after.Changes[n-1].By != last().By || len(after.Changes[n].Differences) != 0 {
		t.Errorf("the next daemon has %+v", after.Changes)
	}
}

// TestCause: the cause of a look is its hint, or, for a look without one, the last hint if it is
// recent.
func TestCause(t *testing.T) {
	seen := func(record string) *view.Host {
		v := &view.Host{}
		v.State.Record.Data = []byte(record)
		return v
	}
	file := &hint{"file: /x", time.Now()}
	const captured = `{"version": 1, "servers": ["10.0.0.1:53"], "origin": "NetworkManager", "event": "eth0 up"}`
	for _, row := range []struct {
		reason      string
		last        *hint
		before, now *view.Host
		want        string
	}{
		{"kernel: addresses or routes", file, seen(""), seen(""), "kernel: addresses or routes"},
		{lookForStatus, file, seen(""), seen(""), "file: /x"},
		{lookAgainSoon, file, nil, seen(captured), "file: /x"},
		{lookAtTime, nil, seen(""), seen(""), "check of the host: time"},
		{lookAtTime, &hint{"file: /x", time.Now().Add(-time.Minute)}, seen(""), seen(""), "check of the host: time"},
		{"file: /x", file, seen(""), seen(captured), "origin-dns-dispatcher: eth0 up"},
		{"file: /x", file, seen(captured), seen(captured), "file: /x"},
		{"file: /x", file, seen(captured), seen("damaged"), "file: /x"},
	} {
		if got := cause(row.reason, row.last, row.before, row.now); got != row.want {
			t.Errorf("%s: %q, want %q", row.reason, got, row.want)
		}
	}
}
