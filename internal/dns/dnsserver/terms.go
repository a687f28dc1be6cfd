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

// Terms define how a Server shares its addresses with another program that has them or is about to
// take them.
//
// Linux lets two UDP sockets bind the same address and port if both set SO_REUSEADDR (socket(7)).
// It delivers to the one that was bound last, unless the other has a more specific address. dnsmasq
// sets SO_REUSEADDR. For TCP both need SO_REUSEPORT, which dnsmasq does not set, so there is a
// moment in which nothing listens.
type Terms string

const (
	Alone    Terms = ""         // no other program can have the addresses
	Taking   Terms = "taking"   // take over UDP from a program that allows it
	Yielding Terms = "yielding" // let another program take over UDP, and do not listen on TCP
	Gone     Terms = "gone"     // listen on nothing; answer what was received before
)

const (
	// TermsFile is the file, below the daemon's root directory, in which root sets the terms.
	TermsFile = "/run/node-dns/terms"
	// TermsHold is how long the terms in the file are valid. The process that wrote it may have
	// been killed.
	TermsHold = 10 * time.Second
)

// ReadTerms reads the terms file. It returns the terms, the addresses that they apply to (nil means
// all), and the remaining validity. Unknown or expired terms, and terms with an invalid address,
// are Alone.
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

// WriteTerms sets the terms for the given addresses, or for all if none are given, starting now.
// Alone removes the file.
func WriteTerms(path string, terms Terms, at ...netip.AddrPort) error {
	var w atomicfile.Writer
	_, err := w.Remove(path) // rewriting identical text would keep the old timestamp
	if err == nil && terms != Alone {
		text := string(terms)
		for _, addr := range at {
			text += " " + addr.String()
		}
		_, err = w.Write(path, []byte(text+"\n"), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing the listen terms: %w", err)
	}
	return nil
}

// termsOf returns the terms at one address. They can differ: while port 53 of one address changed
// hands, a dnsmasq that kept another address once lost its UDP queries to us.
func (s *Server) termsOf(at netip.AddrPort) Terms {
	if s.terms != Gone && len(s.termsAt) > 0 && !slices.Contains(s.termsAt, at) {
		return Alone
	}
	return s.terms
}

// settle applies the terms to the UDP sockets that stay and to those that go.
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
		u.stopReceiving()
	}
}

// udpOf returns the UDP sockets of the bindings.
func udpOf(bindings []*binding) (all udpSockets) {
	for _, b := range bindings {
		if of, ok := b.socket.(udpSockets); ok {
			all = append(all, of...)
		}
	}
	return all
}

// setReuse sets SO_REUSEADDR, which cannot fail on a UDP socket.
func setReuse(fd uintptr, on bool) {
	value := 0
	if on {
		value = 1
	}
	_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, value)
}

// reuseBeforeBind is a net.ListenConfig.Control function for a socket that shares or takes over its
// address.
func reuseBeforeBind(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { setReuse(fd, true) })
}

// emptyPatience is the timeout for reading what a socket has already received. Reading takes
// microseconds.
const emptyPatience = 200 * time.Millisecond

// stopReceiving makes the kernel deliver new queries to the other program, and returns when all
// earlier ones have been read. It connects the socket to itself: a connected UDP socket receives
// only from its peer.
func (u *udpSocket) stopReceiving() {
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
