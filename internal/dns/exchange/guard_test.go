package exchange

import (
	"bytes"
	"testing"
	"time"
)

const serverCookie = "8octets."

// TestCookieLife: a cookie is random, differs for each server, and is replaced each day and after
// the server was down.
func TestCookieLife(t *testing.T) {
	now := time.Now()
	var a, b cookie
	first, other := bytes.Clone(a.option(now)), bytes.Clone(b.option(now))
	if len(first) != ClientCookie || bytes.Equal(first, other) {
		t.Fatalf("got cookies %x and %x", first, other)
	}
	if again := a.option(now.Add(time.Second)); len(again) != 0 {
		t.Errorf("cookie sent again at once: %x", again)
	}
	whole := append(bytes.Clone(first), serverCookie...)
	if a.heard(first, whole) || !bytes.Equal(a.option(now.Add(time.Hour)), whole) {
		t.Errorf("the server's cookie is not stored: %x", a.octets)
	}
	next := bytes.Clone(a.option(now.Add(cookieLife)))
	if len(next) != ClientCookie || bytes.Equal(next, first) {
		t.Errorf("after a day: got cookie %x", next)
	}
	if a.heard(whole, whole); a.size != ClientCookie {
		t.Error("a late response brought back the old cookie")
	}
	h := health{cookie: cookie{size: 16}}
	for range failuresToDown {
		h.failed("gone", false, now)
	}
	if h.state != Down || len(h.cookie.option(now)) != 0 || len(h.cookie.option(now.Add(cookieAgain))) != ClientCookie {
		t.Errorf("after the server was down: got %+v", h.cookie)
	}
	for _, got := range [][]byte{nil, first, append(bytes.Clone(first), make([]byte, 33)...), append(bytes.Clone(first), "short"...)} {
		if !a.heard(whole, got) {
			t.Errorf("accepted %x as a server cookie", got)
		}
	}
}

// TestGuardAllocates: guarding a query does not allocate.
func TestGuardAllocates(t *testing.T) {
	a := NewAccount(time.Unix(0, 0))
	udp := &UDP{Cookies: true, MixedCase: true}
	key, ok := AppendKey(nil, append(make([]byte, 2), "\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x00\x00\x01\x00\x01"...))
	if !ok {
		t.Fatal("no key")
	}
	pool, room := new(IDs), make([]byte, 0, 512)
	a.health.cookie = cookie{octets: [MostWithServers]byte{1, 2, 3}, size: MostWithServers, drawn: time.Unix(0, 0)}
	response := make([]byte, 12)
	if n := testing.AllocsPerRun(1000, func() {
		query := a.Guard(AppendQuery(room, pool.Next(), key, WithEDNS, 1232), udp, true, pool.Next, time.Unix(0, 0))
		response = append(response[:0], query...)
		if a.CheckUDP(query, HasCase(query, response), CookieSent(query), false, time.Unix(0, 0)) {
			t.Fatalf("got a mismatch for %x", query)
		}
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
