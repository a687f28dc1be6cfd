package nameserver

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// TestQuery: each query asks for version.bind, with an ID of its own.
func TestQuery(t *testing.T) {
	seen := map[uint16]bool{}
	for range 50 {
		var m dnsmessage.Message
		query := mustQuery(t)
		if err := m.Unpack(query); err != nil {
			t.Fatal(err)
		}
		q := m.Questions[0]
		if m.Response || len(m.Questions) != 1 || q.Name.String() != "version.bind." || q.Type != dnsmessage.TypeTXT || q.Class != dnsmessage.ClassCHAOS {
			t.Fatalf("asks %v", m.GoString())
		}
		if !IsProbe(query) {
			t.Fatal("IsProbe does not recognize the query")
		}
		seen[m.ID] = true
	}
	if len(seen) < 25 {
		t.Errorf("got %d different IDs in 50 queries", len(seen))
	}
}

// TestIsProbe: only the exact query of Identify is one. A program's own query for version.bind is
// not.
func TestIsProbe(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(query []byte) []byte
	}{
		{"a response", func(q []byte) []byte { q[2] |= 0x80; return q }},
		{"recursion desired", func(q []byte) []byte { q[2] |= 1; return q }},
		{"checking disabled", func(q []byte) []byte { q[3] |= 0x10; return q }},
		{"class IN", func(q []byte) []byte { q[len(q)-1] = 1; return q }},
		{"another name", func(q []byte) []byte { q[headerSize+1] = 'w'; return q }},
		{"more bytes", func(q []byte) []byte { return append(q, 0) }},
		{"fewer bytes", func(q []byte) []byte { return q[:len(q)-1] }},
		{"nothing", func([]byte) []byte { return nil }},
	} {
		if IsProbe(test.change(mustQuery(t))) {
			t.Errorf("%s: counts as a probe", test.name)
		}
	}
}

func mustQuery(t testing.TB) []byte {
	t.Helper()
	query, err := newQuery()
	if err != nil {
		t.Fatal(err)
	}
	return query
}

// respond returns a response to newQuery with these strings in its only answer.
func respond(t testing.TB, texts ...string) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(mustQuery(t)); err != nil {
		t.Fatal(err)
	}
	m.Response = true
	m.Answers = []dnsmessage.Resource{{
		Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassCHAOS}, Body: &dnsmessage.TXTResource{TXT: texts},
	}}
	packed, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

func TestNameIn(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, test := range []struct {
		name     string
		response []byte
		want     string
	}{
		{"one string", respond(t, "node-dns 0.9.0"), "node-dns 0.9.0"},
		{"two strings", respond(t, "dnsmasq", "-2.90"), "dnsmasq-2.90"},
		{"an escape sequence", respond(t, "a\x1b[31mb\n"), "a[31mb"},
		{"a long name", respond(t, long), long[:maxIdentity]},
		{"cut off", respond(t, "node-dns")[:40], ""},
		{"the question alone", append([]byte{0, 0, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0}, question...), ""},
		{"the header alone", make([]byte, headerSize), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := nameIn(test.response); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// FuzzNameIn: a name is the one that a library finds, and can be printed.
func FuzzNameIn(f *testing.F) {
	f.Add(respond(f, "node-dns 0.9.0"))
	f.Add(respond(f, "a", "b"))
	f.Fuzz(func(t *testing.T, message []byte) {
		if len(message) < headerSize {
			return
		}
		got := nameIn(message)
		if len(got) > maxIdentity || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("got %q", got)
		}
		if want, ok := byLibrary(message); ok && got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// byLibrary is nameIn with a library. ok is false if the message is not a valid response to the
// question.
func byLibrary(message []byte) (name string, ok bool) {
	var parser dnsmessage.Parser
	if _, err := parser.Start(message); err != nil {
		return "", false
	}
	questions, err := parser.AllQuestions()
	if err != nil || len(questions) != 1 || !strings.HasPrefix(string(message[headerSize:]), question) {
		return "", false
	}
	header, err := parser.AnswerHeader()
	if err != nil || header.Type != dnsmessage.TypeTXT {
		return "", false
	}
	txt, err := parser.TXTResource()
	if err != nil {
		return "", false
	}
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, strings.Join(txt.TXT, ""))
	return strings.TrimSpace(text[:min(len(text), maxIdentity)]), true
}

// TestWhyNotNodeDNS: only node-dns's own name shows that node-dns answers.
func TestWhyNotNodeDNS(t *testing.T) {
	at := netip.MustParseAddr("10.96.0.10")
	for _, test := range []struct {
		name, by string
		err      error
		want     string
	}{
		{"node-dns answers", "node-dns 0.9.0", nil, ""},
		{"nothing answers", "", os.ErrDeadlineExceeded, "node-dns does not answer at 10.96.0.10 within 150ms"},
		{"nothing listens", "", syscall.ECONNREFUSED, "node-dns does not listen on 10.96.0.10"},
		{"the network fails", "", errors.New("no route"), "cannot query 10.96.0.10: no route"},
		// A socket load balancer, such as Cilium's, sends the query to a DNS pod before any rule
		// sees it.
		{"CoreDNS answers", "CoreDNS-1.12.1", nil, "another nameserver answers at 10.96.0.10: CoreDNS-1.12.1"},
		{"a nameserver refuses to name itself", "", nil, "another nameserver answers at 10.96.0.10"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := WhyNotNodeDNS(at, test.by, test.err, 150*time.Millisecond); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
