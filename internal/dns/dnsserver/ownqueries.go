package dnsserver

import "github.com/miekg/dns"

// IsOwn reports whether a name, as received, is that of a query that this process has sent to
// another nameserver and that came back. It is called from receiving goroutines, so it must not
// block for long.
type IsOwn func(name []byte) bool

// SetOwn sets the function that recognizes our own queries. The server answers them with NXDOMAIN
// before it looks at the client. Like pings, they are not counted, reported or limited. nil means
// that no such query is in flight, which costs one load per batch.
func (s *Server) SetOwn(isOwn IsOwn) {
	if isOwn == nil {
		s.comesBack.Store(nil)
		return
	}
	s.comesBack.Store(&isOwn)
}

// answerOwn returns the response to a message that accept let through if it is one of our own
// queries, and nil otherwise.
func (f *IsOwn) answerOwn(wire []byte) []byte {
	if f == nil || !(*f)(wire[headerSize:questionEnd(wire)-4]) {
		return nil
	}
	return errorReply(wire, dns.RcodeNameError)
}
