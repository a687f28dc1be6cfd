package exchange

import (
	"time"

	"github.com/miekg/dns"
)

const lostToShrink = 3 // losses in a row; one or two may be ordinary packet loss

// sizes tracks responses that get lost on the way from a server because of their size: a firewall
// drops fragments or large datagrams (RFC 9715 section 3.2). A response counts as lost if its query
// stayed unanswered while the same question had a large answer over TCP or from another server. The
// zero value knows nothing.
//
// After three losses, the server is asked for smaller responses, which it truncates if necessary
// (RFC 6891 section 6.2.5). After plainFor, one question at a time asks for larger ones again. A
// response as large as the lost ones ends this. Like health, it has no clock and no lock.
type sizes struct {
	lost  int           // in a row, at most lostToShrink
	least int           // size of the smallest of them
	pause time.Duration // minimum interval between losses that count
	next  time.Time     // time when a loss counts again, or larger responses are requested
}

// usable returns the largest response to request, in bytes; 0 means no limit.
func (s *sizes) usable() uint16 {
	switch {
	case s.lost < lostToShrink:
		return 0
	case s.least > DefaultUDPSize:
		return DefaultUDPSize
	}
	return dns.MinMsgSize
}

// ask returns the size to request in the next query. It does not exceed most.
func (s *sizes) ask(most uint16, now time.Time) uint16 {
	usable := s.usable()
	if usable == 0 || most <= usable {
		return most
	}
	if !now.Before(s.next) {
		s.next = now.Add(s.pause)
		return most
	}
	return usable
}

// arrived records the size of a response over UDP.
func (s *sizes) arrived(octets int) {
	if s.lost > 0 && octets >= s.least {
		*s = sizes{}
	}
}

// lose records the size of a lost response. Losses within a pause count once, because the server
// may have been away for a moment.
func (s *sizes) lose(octets int, pause time.Duration, now time.Time) {
	if octets <= dns.MinMsgSize || s.usable() == 0 && now.Before(s.next) {
		return
	}
	if s.lost == 0 || octets < s.least {
		s.least = octets
	}
	s.lost, s.pause, s.next = min(s.lost+1, lostToShrink), pause, now.Add(pause)
	if s.lost == lostToShrink {
		s.next = now.Add(plainFor)
	}
}
