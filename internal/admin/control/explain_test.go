package control

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/golden"
)

// podSearch is the search list of an ordinary pod.
func podSearch() Search {
	return Search{
		APIVersion: APIVersion, Kind: "Search", Namespace: "shop", Nameservers: []string{"10.0.0.5"}, Own: []string{"10.0.0.5"},
		Domains: []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example"}, Options: []string{"ndots:5"},
		Host:     &HostFile{Path: "/etc/resolv.conf", Source: "default", Nameservers: []string{"10.0.0.2"}, Search: []string{"corp.example"}},
		Autopath: Walk{Why: "disabled by autopath in node-dns.yaml"},
	}
}

// played answers from a table. Names that are not in it do not exist. Keys with the prefix "walked
// " are answers with autopath.
func played(search Search, there map[string]Answer) API {
	return API{
		Search: func(context.Context, SearchQuestion) (Search, error) { return search, nil },
		Query: func(_ context.Context, q Question) (Answer, error) {
			a, ok := there[q.Name]
			if walked, walks := there["walked "+q.Name]; walks && q.Namespace != "" {
				a, ok = walked, true
			}
			if !ok {
				a = Answer{Rcode: "NXDOMAIN", By: By{Who: "cluster"}, Took: 40 * time.Microsecond}
			}
			a.Name, a.Type = q.Name, q.Type
			if a.Rcode == "NOERROR" && len(a.Answer) > 0 && a.Answer[0].Type != q.Type && a.Answer[0].Type != "CNAME" {
				a.Answer = nil
			}
			return a, nil
		},
	}
}

func address(name, data string, by By) Answer {
	return Answer{Rcode: "NOERROR", Took: 12 * time.Millisecond, By: by, Answer: []Record{{Name: name, TTL: 60, Class: "IN", Type: "A", Data: data}}}
}

// TestExplanations compares the output with golden files, which end with the problems that set the
// exit code.
func TestExplanations(t *testing.T) {
	upstream := By{Who: "upstream", Server: "10.0.0.2", Domain: ".", Source: "NetworkManager eth0"}
	failed := Answer{Rcode: "SERVFAIL", By: By{Who: "nobody"}, Took: time.Second, Errors: []ExtendedError{{22, "No Reachable Authority", "no response from 10.0.0.2 (timed out)"}}}
	with := func(change func(*Search)) Search { s := podSearch(); change(&s); return s }
	for _, test := range []struct {
		name, ask string
		search    Search
		there     map[string]Answer
	}{
		{"found-at-the-end", "google.com", podSearch(), map[string]Answer{"google.com.": address("google.com.", "192.0.2.1", upstream)}},
		{"over-tls", "google.com", podSearch(), map[string]Answer{
			"google.com.": address("google.com.", "192.0.2.1", By{Who: "upstream", Server: "10.0.0.2", Transport: "tls (opportunistic)", Domain: "."}),
		}},
		{"walked", "google.com", with(func(s *Search) { s.Autopath = Walk{On: true} }), map[string]Answer{
			"google.com.": address("google.com.", "192.0.2.1", upstream),
			"walked google.com.shop.svc.cluster.local.": {Rcode: "NOERROR", By: By{Who: "upstream", Walked: true}, Answer: []Record{{Type: "CNAME", Data: "google.com."}}},
		}},
		{"fails", "google.com", podSearch(), map[string]Answer{"google.com.corp.example.": failed, "google.com.": failed}},
		{"many-dots", "a.b.c.d.e.f", podSearch(), map[string]Answer{"a.b.c.d.e.f.corp.example.": address("", "192.0.2.2", By{Who: "local data", Source: "/etc/hosts:3"})}},
		{"long-list", "web", with(func(s *Search) { s.Domains = append(s.Domains, strings.Repeat("x", 230)) }), map[string]Answer{"web.shop.svc.cluster.local.": address("", "172.30.0.9", By{Who: "cluster"})}},
		{"root-in-the-list", "web", with(func(s *Search) { s.Domains = []string{"."} }), map[string]Answer{"web.": address("", "192.0.2.2", upstream)}},
		{"stale-and-routed", "web", with(func(s *Search) { s.Namespace, s.Host, s.Options, s.Domains = "", nil, nil, nil }), map[string]Answer{
			"web.": address("", "192.0.2.2", By{Who: "upstream", Server: "10.1.1.1", Domain: "web.", Source: "dnsmasq /etc/dnsmasq.d/a.conf:1", Cached: true, Stale: true, Age: 3 * time.Hour}),
		}},
		{"hostile", "web", with(func(s *Search) {
			s.Nameservers, s.Domains = []string{"10.0.0.5", "10.0.0.5"}, []string{"a\x1b[2J\nb"}
			s.Faults, s.Notes = []Fault{{"10.0.0.5 is\r there twice", "name\x07 it once"}}, []string{"a\x1bnote"}
		}), map[string]Answer{"web.a\x1b[2J\nb.": address("web", "\x1b[31mred", By{Who: "cluster", Server: "10.9.9.9\n! all is well"})}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := serving(t, played(test.search, test.there))
			e, err := FetchExplanation(t.Context(), path, test.ask, SearchQuestion{Namespace: "shop"})
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if err := e.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			if got := text.String(); strings.ContainsAny(got, "\x1b\r\x07") {
				t.Errorf("got unescaped text %q", got)
			}
			folded := narrow(t, e.WriteText)
			if test.name == "fails" {
				golden.Check(t, "testdata/explain/fails-60.txt", folded)
			}
			golden.Check(t, "testdata/explain/"+test.name+".txt", text.String()+"problems: "+strings.ReplaceAll(strings.Join(e.Problems, "; "), "\r", "")+"\n")
		})
	}
}

// serving runs a daemon with that API and returns the path of its socket.
func serving(t *testing.T, api API) (path string) {
	t.Helper()
	path = socketPath(t)
	listener, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, api) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return path
}

// TestLookupFails proves that an invalid question ends the search at once with the daemon's
// message.
func TestLookupFails(t *testing.T) {
	var asked atomic.Int32
	api := played(podSearch(), nil)
	api.Query = func(context.Context, Question) (Answer, error) {
		asked.Add(1)
		return Answer{}, MistakeError{"no name"}
	}
	path := serving(t, api)
	var mistake MistakeError
	if _, err := FetchLookup(t.Context(), path, LookupQuestion{Name: "web", Types: []string{"A"}}); !errors.As(err, &mistake) || asked.Load() != 1 {
		t.Errorf("got %v after %d queries", err, asked.Load())
	}
	if _, err := FetchExplanation(t.Context(), path, "web", SearchQuestion{}); !errors.As(err, &mistake) {
		t.Error(err)
	}
	api.Search = func(context.Context, SearchQuestion) (Search, error) { return Search{}, fs.ErrNotExist }
	path = serving(t, api)
	if _, err := FetchLookup(t.Context(), path, LookupQuestion{Name: "web"}); err == nil || errors.Is(err, ErrNotRunning) {
		t.Error(err)
	}
	old := serving(t, API{})
	for what, err := range map[string]error{
		"query":   second(FetchLookup(t.Context(), old, LookupQuestion{Name: "web"})),
		"explain": second(FetchExplanation(t.Context(), old, "web", SearchQuestion{})),
		"one":     second(Query(t.Context(), old, Question{Name: "web."})),
	} {
		if err == nil || !strings.Contains(err.Error(), "does not support this request: its version differs") {
			t.Errorf("%s from an old daemon: got %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
