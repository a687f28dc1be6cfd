package forward

import (
	"bytes"
	"time"

	"github.com/miekg/dns"
)

// maxDoubts is how many responses in a row may be doubtful, without an answer over TCP, before what makes them so is taken for the
// server's manner.
const maxDoubts = 3

// What makes a response harder to forge than its port and ID do is checked as these are, but a response that fails is no proof of
// a forgery: there are servers that write the question in lower case, and forwarders that speak cookies when whom they ask does
// (c-ares issues 1081 and 1271). So the question is asked again over TCP, which nobody forges from afar; what comes there is
// believed, and tells whether the server is one of these.

// guard makes a query of ours hard to forge responses to. option is whether it may have a cookie; draw gives random bits.
func (s *server) guard(query []byte, udp *UDP, option bool, draw func() uint16, now time.Time) []byte {
	end := questionEnd(query)
	s.mu.Lock()
	defer s.mu.Unlock()
	if udp.MixedCase && !now.Before(s.health.lowerTill) {
		mixCase(query[headerSize:end-4], draw)
	}
	if udp.Cookies && option && len(query) == end+optSize {
		query = appendCookie(query, s.health.cookie.option(now))
	}
	return query
}

// isGuarded reports whether queries have more than a port and an ID to them.
func (u *UDP) isGuarded() bool { return u.Cookies || u.MixedCase }

// mixCase gives each letter of a name the case that a random bit says: draft-vixie-dnsext-dns0x20.
func mixCase(name []byte, draw func() uint16) {
	var bits uint16
	left := 0
	for i, c := range name {
		if c < 'a' || c > 'z' {
			continue
		}
		if left == 0 {
			bits, left = draw(), 16
		}
		name[i] -= byte(bits&1) * ('a' - 'A')
		bits, left = bits>>1, left-1
	}
}

// hasCase reports whether a response that has the question of sent has its letters too.
func hasCase(sent, response []byte) bool {
	end := questionEnd(sent)
	return bytes.Equal(sent[headerSize:end], response[headerSize:end])
}

// parsedHasCase is hasCase for a response that was parsed. One without question has no wrong one.
func parsedHasCase(sent []byte, m *dns.Msg) bool {
	name, _, err := dns.UnpackDomainName(sent, headerSize)
	return len(m.Question) == 0 || err == nil && m.Question[0].Name == name
}

// doubts takes what a response over UDP says beside its answer, and reports whether it may not be the server's.
func (s *server) doubts(sent []byte, hasCase bool, got []byte) (isDoubtful bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	isDoubtful = s.health.cookie.heard(cookieSent(sent), got) || !hasCase
	if isDoubtful {
		s.health.doubted(now)
	} else {
		s.health.doubts = 0
	}
	return isDoubtful
}

// believes takes the same of a response over TCP, which is the server's: what it lacks the server does not do.
func (s *server) believes(sent []byte, m *dns.Msg) {
	now, got := time.Now(), cookieIn(m)
	hasCase := parsedHasCase(sent, m)
	s.learn(func(h *health) {
		h.doubts = 0
		if h.cookie.heard(cookieSent(sent), got) {
			h.cookie.forget(now)
		}
		if !hasCase {
			h.lowerTill = now.Add(plainFor)
		}
	})
}

// doubted notes a doubtful response. When they do not end, and nothing comes over TCP that tells why, the server is asked as one
// that does nothing of this: who could forge so many in a row would have guessed as many ports and IDs.
func (h *health) doubted(now time.Time) {
	if h.doubts++; h.doubts < maxDoubts {
		return
	}
	h.doubts = 0
	h.lowerTill = now.Add(plainFor)
	h.cookie.forget(now)
}
