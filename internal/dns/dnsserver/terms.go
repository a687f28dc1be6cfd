package dnsserver

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// Terms are how a Server stands to another program that has the same addresses, or is to have them.
//
// Linux lets two UDP sockets have one address and port where both have SO_REUSEADDR (socket(7)), and gives what comes to the
// one that was bound last, unless the other's address is more specific. dnsmasq sets it. Two that listen for TCP need
// SO_REUSEPORT, which dnsmasq does not set: there is a moment in which nobody listens.
type Terms string

const (
	Alone    Terms = ""         // nobody else can have the addresses
	Taking   Terms = "taking"   // UDP is taken from whoever lets it be taken
	Yielding Terms = "yielding" // UDP lets itself be taken, and TCP is not listened at
	Gone     Terms = "gone"     // nothing is listened at; what had been received by then is answered
)

// SetTerms is for the next Listen. The terms hold at the given addresses, and the others are Alone; no address: they hold
// at all of them. Gone holds at all of them in any case.
func (s *Server) SetTerms(terms Terms, at ...netip.AddrPort) {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.terms, s.termsAt = terms, at
}

// termsOf are the terms at one address. While port 53 of one address changed hands, a dnsmasq that has another one, and
// keeps it, once lost its UDP queries to us.
func (s *Server) termsOf(at netip.AddrPort) Terms {
	if s.terms != Gone && len(s.termsAt) > 0 && !slices.Contains(s.termsAt, at) {
		return Alone
	}
	return s.terms
}

// settle makes the UDP sockets that stay, or go, follow the terms.
func (s *Server) settle(next, gone []*binding) {
	for _, b := range next {
		for _, u := range udpOf([]*binding{b}) {
			_ = u.file.Control(func(fd uintptr) { setReuse(fd, s.termsOf(b.want) != Alone) })
		}
	}
	if s.terms != Gone {
		return
	}
	for _, u := range udpOf(gone) {
		u.turnAway()
	}
}

// udpOf are the UDP sockets of the bindings.
func udpOf(bindings []*binding) (all udpSockets) {
	for _, b := range bindings {
		if of, ok := b.socket.(udpSockets); ok {
			all = append(all, of...)
		}
	}
	return all
}

// setReuse cannot fail on a UDP socket.
func setReuse(fd uintptr, on bool) {
	value := 0
	if on {
		value = 1
	}
	_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, value)
}

// reuseBeforeBind is net.ListenConfig.Control for a socket that is to share, or take, its address.
func reuseBeforeBind(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { setReuse(fd, true) })
}

// emptyPatience is how long what a socket has received by now may take to be read. It is done in microseconds.
const emptyPatience = 200 * time.Millisecond

// turnAway has the kernel give what comes from now on to others, and returns when all that came before has been read. A
// connected UDP socket gets what its peer sends and nothing else; this one's is itself.
func (u *udpSocket) turnAway() {
	connected := false
	_ = u.file.Control(func(fd uintptr) {
		self, err := unix.Getsockname(int(fd))
		connected = err == nil && unix.Connect(int(fd), self) == nil
	})
	for deadline := time.Now().Add(emptyPatience); connected && time.Now().Before(deadline); {
		unread := 0
		_ = u.file.Control(func(fd uintptr) { unread, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
		if unread == 0 {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}

const (
	// TermsFile is where root tells a daemon on which terms to listen, below its root.
	TermsFile = "/run/node-dns/terms"
	// TermsHold is for how long a word in that file holds. Whoever wrote it may have been killed.
	TermsHold = 10 * time.Second
)

// ReadTerms returns what the file says: a word, the addresses where it holds (nil: everywhere), and for how long it holds
// still. A word that it does not know, or that is too old, is Alone, and so is one with an address that cannot be read.
func ReadTerms(path string) (Terms, []netip.AddrPort, time.Duration) {
	info, err := os.Stat(path)
	if err != nil {
		return Alone, nil, 0
	}
	left := TermsHold - time.Since(info.ModTime())
	text, err := os.ReadFile(path)
	words := strings.Fields(string(text))
	if err != nil || len(words) == 0 || left <= 0 || left > TermsHold {
		return Alone, nil, 0
	}
	terms := Terms(words[0])
	if terms != Taking && terms != Yielding && terms != Gone {
		return Alone, nil, 0
	}
	var at []netip.AddrPort
	for _, word := range words[1:] {
		addr, err := netip.ParseAddrPort(word)
		if err != nil {
			return Alone, nil, 0
		}
		at = append(at, addr)
	}
	return terms, at, left
}

// WriteTerms tells the daemon, from now on, about these addresses, or about all where there is none; Alone removes the file.
func WriteTerms(path string, terms Terms, at ...netip.AddrPort) error {
	var w atomicfile.Writer
	_, err := w.Remove(path) // the time of one that says the same would stay
	if err == nil && terms != Alone {
		text := string(terms)
		for _, addr := range at {
			text += " " + addr.String()
		}
		_, err = w.Write(path, []byte(text+"\n"), 0o644)
	}
	if err != nil {
		return fmt.Errorf("telling node-dns how to listen: %w", err)
	}
	return nil
}
