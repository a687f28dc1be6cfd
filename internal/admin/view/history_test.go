package view

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// routesOf parses routes such as "corp.example=10.0.0.1,10.0.0.2". "home=" is a local domain
// without servers.
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

// TestDifferences proves that each changed domain is listed once, with its old and its new target.
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
			t.Errorf("%s: got %s, want %s", name, got, row.want)
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

// TestHistoryBounds proves that only the latest changes and a limited number of domains are kept,
// in memory and in the file.
func TestHistoryBounds(t *testing.T) {
	h := history{Path: filepath.Join(t.TempDir(), "run/servers.json")}
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
	again := history{Path: h.Path}
	if err := again.Load(); err != nil {
		t.Fatal(err)
	}
	for name, kept := range map[string]*keptHistory{"here": h.kept.Load(), "in the file": again.kept.Load()} {
		if len(kept.Changes) != maxChanges || !kept.Changes[maxChanges-1].Time.Equal(time.Unix(3*maxChanges-1, 0)) {
			t.Errorf("%s: got %d changes, the last one at %v", name, len(kept.Changes), kept.Changes[len(kept.Changes)-1].Time)
		}
		for _, change := range kept.Changes {
			if len(change.Differences) != maxDifferences || change.More != 513-maxDifferences {
				t.Errorf("%s: got %d differences and %d more", name, len(change.Differences), change.More)
			}
		}
	}
	if info, err := os.Stat(h.Path); err != nil || info.Size() > maxHistory {
		t.Errorf("got size %v, %v", info.Size(), err)
	}
}

// TestHistoryIsSmall proves that fewer changes are kept if there are many servers, and that the
// next daemon can read them.
func TestHistoryIsSmall(t *testing.T) {
	h := history{Path: filepath.Join(t.TempDir(), "servers.json")}
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
	again := history{Path: h.Path}
	if err := again.Load(); err != nil {
		t.Fatal(err)
	}
	n := len(again.kept.Load().Changes)
	if n < 2 || n != len(h.kept.Load().Changes) {
		t.Errorf("got %d changes from the file, and %d in memory", n, len(h.kept.Load().Changes))
	}
}

// TestHistoryDamaged proves that a damaged history is ignored and overwritten.
func TestHistoryDamaged(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"changes": 1}`, strings.Repeat(" ", maxHistory+1)} {
		h := history{Path: filepath.Join(t.TempDir(), "servers.json")}
		if err := os.WriteFile(h.Path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := h.Load(); err == nil || h.kept.Load() != nil {
			t.Errorf("%.10q was accepted", text)
		}
		if err := h.note(time.Now(), "a test", routesOf(".=10.0.0.1")); err != nil || len(h.kept.Load().Changes) != 1 {
			t.Errorf("%.10q: got %v", text, err)
		}
	}
	h := history{Path: filepath.Join(t.TempDir(), "servers.json")}
	if err := unix.Mkfifo(h.Path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := h.Load(); err == nil || !strings.Contains(err.Error(), "got a FIFO") { // it blocked the start
		t.Errorf("a FIFO: %v", err)
	}
}
