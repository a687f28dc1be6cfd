package dnsserver

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

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
