package daemon

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// routesOf are routes of words like "corp.example=10.0.0.1,10.0.0.2"; "home=" has no such names.
func routesOf(words ...string) (routes []forward.Route) {
	for _, word := range words {
		domain, servers, _ := strings.Cut(word, "=")
		r := forward.Route{Domain: dnsname.MustParse(domain), Local: servers == "", Source: "a test"}
		for _, server := range strings.Split(servers, ",") {
			if !r.Local {
				r.Servers = append(r.Servers, nameserver.MustParse(server))
			}
		}
		routes = append(routes, r)
	}
	return routes
}

// TestDifferences: each domain that is asked of others stands in them once, with both.
func TestDifferences(t *testing.T) {
	for name, row := range map[string]struct {
		before, after []forward.Route
		want          string
	}{
		"start":      {nil, routesOf("corp.example=10.0.0.1", ".=10.0.0.2"), "corp.example. none -> 10.0.0.1; . none -> 10.0.0.2"},
		"nothing":    {routesOf(".=10.0.0.2"), routesOf(".=10.0.0.2"), ""},
		"the order":  {routesOf(".=10.0.0.2,10.0.0.3"), routesOf(".=10.0.0.3,10.0.0.2"), ". 10.0.0.2 10.0.0.3 -> 10.0.0.3 10.0.0.2"},
		"gone":       {routesOf("corp.example=10.0.0.1", ".=10.0.0.2"), routesOf(".=10.0.0.2"), "corp.example. 10.0.0.1 -> none"},
		"all gone":   {routesOf(".=10.0.0.2"), nil, ". 10.0.0.2 -> none"},
		"no names":   {routesOf("home=10.0.0.1"), routesOf("home="), "home. 10.0.0.1 -> no such names"},
		"order only": {routesOf("a=10.0.0.1", "b=10.0.0.1"), routesOf("b=10.0.0.1", "a=10.0.0.1"), ""},
	} {
		var words []string
		for _, d := range differences(keptRoutes(row.before), keptRoutes(row.after)) {
			words = append(words, d.Domain+" "+targetWord(d.Before)+" -> "+targetWord(d.After))
		}
		if got := strings.Join(words, "; "); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}

func targetWord(target *control.RouteTarget) string {
	switch {
	case target == nil:
		return "none"
	case target.Local:
		return "no such names"
	}
	return strings.Join(target.Servers, " ")
}

// TestHistoryBounds: as many changes as are kept, of as many domains, and the latest of them; here and in the file.
func TestHistoryBounds(t *testing.T) {
	h := history{path: filepath.Join(t.TempDir(), "run/servers.json")}
	var many []string
	for i := range 512 {
		many = append(many, fmt.Sprintf("d%d.example=10.0.0.1", i))
	}
	for i := range 3 * maxChanges {
		words := []string{fmt.Sprintf(".=10.0.1.%d", i)}
		if i%2 == 0 {
			words = append(many, words...)
		}
		if err := h.note(time.Unix(int64(i), 0), "a test", routesOf(words...)); err != nil {
			t.Fatal(err)
		}
	}
	again := history{path: h.path}
	if err := again.load(); err != nil {
		t.Fatal(err)
	}
	for name, kept := range map[string]*keptHistory{"here": h.kept.Load(), "in the file": again.kept.Load()} {
		if len(kept.Changes) != maxChanges || !kept.Changes[maxChanges-1].Time.Equal(time.Unix(3*maxChanges-1, 0)) {
			t.Errorf("%s: %d changes, the last one at %v", name, len(kept.Changes), kept.Changes[len(kept.Changes)-1].Time)
		}
		for _, change := range kept.Changes {
			if len(change.Differences) != maxDifferences || change.More != 513-maxDifferences {
				t.Errorf("%s: %d differences and %d more", name, len(change.Differences), change.More)
			}
		}
	}
	if info, err := os.Stat(h.path); err != nil || info.Size() > maxHistory {
		t.Errorf("%v, %v", info.Size(), err)
	}
}

// TestHistoryIsSmall: where the servers are many, fewer changes are kept, and the next daemon can read them.
func TestHistoryIsSmall(t *testing.T) {
	h := history{path: filepath.Join(t.TempDir(), "servers.json")}
	for i := range maxChanges {
		var words []string
		for domain := range maxDifferences {
			word := fmt.Sprintf("d%d.example=10.1.0.%d", domain, i)
			for server := range 63 {
				word += fmt.Sprintf(",10.0.0.%d", server)
			}
			words = append(words, word)
		}
		if err := h.note(time.Now(), "a test", routesOf(words...)); err != nil {
			t.Fatal(err)
		}
	}
	again := history{path: h.path}
	if err := again.load(); err != nil {
		t.Fatal(err)
	}
	n := len(again.kept.Load().Changes)
	if n < 2 || n != len(h.kept.Load().Changes) {
		t.Errorf("%d changes, and %d here", n, len(h.kept.Load().Changes))
	}
}

// TestHistoryDamaged: what is no history begins anew, and is written over.
func TestHistoryDamaged(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"changes": 1}`, strings.Repeat(" ", maxHistory+1)} {
		h := history{path: filepath.Join(t.TempDir(), "servers.json")}
		if err := os.WriteFile(h.path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := h.load(); err == nil || h.kept.Load() != nil {
			t.Errorf("%.10q is taken", text)
		}
		if err := h.note(time.Now(), "a test", routesOf(".=10.0.0.1")); err != nil || len(h.kept.Load().Changes) != 1 {
			t.Errorf("%.10q: %v", text, err)
		}
	}
}

// TestServerHistory: who changed what, for each way that a change comes in; and the next daemon knows it too.
func TestServerHistory(t *testing.T) {
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

	// The hook's files, one after the other as it writes them.
	record := map[string]any{"version": 1, "servers": []netip.AddrPort{b.Addr()}, "origin": "NetworkManager", "detail": "eth0", "event": "eth0 dhcp4-change"}
	text, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.root, "/var/lib/node-dns/upstreams.json"), string(text))
	write(t, filepath.Join(r.root, upstreamPath), upstreamFile(b))
	r.await("the hook's", asks(b))
	if by := last().By; by != "origin-dns-dispatcher: eth0 dhcp4-change" && !strings.HasPrefix(by, "file: ") { // seen between two files
		t.Errorf("the hook's change is told as %q", by)
	}

	// A file, and then the same by a reload that comes before the file is seen.
	write(t, filepath.Join(r.root, "/etc/node-dns/node-dns.yaml"), "upstreams: [\""+c.Addr().String()+"\"]\n")
	if err := r.daemon.reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.await("the file's", asks(c))
	if by := last().By; by != "SIGHUP" && !strings.HasPrefix(by, "file: ") {
		t.Errorf("a file's change is told as %q", by)
	}
	h := history()
	if first := h.Changes[0]; first.By != startReason || len(first.Differences) != 1 {
		t.Errorf("it began with %+v", first)
	}
	if status := r.status(); status.Changed == nil || status.Changed.By != last().By {
		t.Errorf("the status says %+v", status.Changed)
	}

	next, err := New(Config{Root: r.root})
	if err != nil {
		t.Fatal(err)
	}
	next.noteRoutes(startReason, r.daemon.policy().Routes)
	after := next.serverHistory(t.Context())
	if n := len(h.Changes); len(after.Changes) != n+1 || after.Changes[n-1].By != last().By || len(after.Changes[n].Differences) != 0 {
		t.Errorf("the next daemon says %+v", after.Changes)
	}
}

// TestCause: a look is about what hinted at it; one that nothing hinted at, about the last hint, if that is not long ago.
func TestCause(t *testing.T) {
	view := func(record string) *hostView {
		v := &hostView{}
		v.state.Record.Data = []byte(record)
		return v
	}
	file := &hint{"file: /x", time.Now()}
	const captured = `{"version": 1, "servers": ["10.0.0.1:53"], "origin": "NetworkManager", "event": "eth0 up"}`
	for _, row := range []struct {
		reason      string
		last        *hint
		before, now *hostView
		want        string
	}{
		{"kernel: addresses or routes", file, view(""), view(""), "kernel: addresses or routes"},
		{lookForStatus, file, view(""), view(""), "file: /x"},
		{lookAgainSoon, file, nil, view(captured), "file: /x"},
		{lookAtTime, nil, view(""), view(""), "a look at the host: time"},
		{lookAtTime, &hint{"file: /x", time.Now().Add(-time.Minute)}, view(""), view(""), "a look at the host: time"},
		{"file: /x", file, view(""), view(captured), "origin-dns-dispatcher: eth0 up"},
		{"file: /x", file, view(captured), view(captured), "file: /x"},
		{"file: /x", file, view(captured), view("damaged"), "file: /x"},
	} {
		if got := cause(row.reason, row.last, row.before, row.now); got != row.want {
			t.Errorf("%s: %q, want %q", row.reason, got, row.want)
		}
	}
}
