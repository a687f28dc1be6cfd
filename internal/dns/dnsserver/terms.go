package dnsserver

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

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
