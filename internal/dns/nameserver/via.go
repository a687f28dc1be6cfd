package nameserver

import (
	"errors"
	"fmt"
	"strings"
)

// Errors in Interface and Source, in addition to those of Parse.
var (
	ErrInterface  = errors.New("not the name of a network interface")
	ErrSource     = errors.New("source address has another address family")
	ErrSourcePort = errors.New("a fixed source port makes responses easy to forge")
	ErrViaTLS     = errors.New("interface and source address are not supported with TLS")
)

// ParseDnsmasq parses a server in the syntax of server= in dnsmasq 2.90, after the domains:
//
//	10.0.0.2  10.0.0.2#5353  2001:db8::1#5353  fe80::1%eth0
//	10.0.0.2@eth1  10.0.0.2@192.0.2.1  10.0.0.2#5353@eth1@192.0.2.1
//
// It rejects other forms that dnsmasq accepts: host names, because no server could resolve them,
// port 0, which never answers, and a source port, because all queries would use one socket
// (CVE-2008-1447).
func ParseDnsmasq(text string) (Server, error) {
	if len(text) > maxText {
		return Server{}, fmt.Errorf("parsing nameserver %q...: %w", text[:64], ErrAddress)
	}
	server, err := parseDnsmasq(text)
	if err != nil {
		return Server{}, fmt.Errorf("parsing nameserver %q: %w", text, err)
	}
	return server, nil
}

func parseDnsmasq(text string) (Server, error) {
	text, via, isVia := strings.Cut(text, "@")
	host, port, hasPort := strings.Cut(text, "#")
	addr, err := ParseAddr(host)
	if err != nil {
		return Server{}, err
	}
	server := FromAddr(addr)
	if hasPort {
		if server, err = withPort(addr, port); err != nil {
			return Server{}, err
		}
	}
	if !isVia {
		return server, nil
	}
	return server.parseVia(via)
}

// parseVia returns the server with the interface and source address in text, which follows the
// first "@".
func (s Server) parseVia(text string) (Server, error) {
	if s.TLS {
		return Server{}, ErrViaTLS
	}
	source, second, both := strings.Cut(text, "@")
	if host, _, _ := strings.Cut(source, "#"); both || !isAddr(host) {
		if s.Interface = source; source == "" || !validZone(source) {
			return Server{}, ErrInterface
		}
		if source = second; !both {
			return s, nil
		}
	}
	if strings.Contains(source, "#") {
		return Server{}, ErrSourcePort
	}
	addr, err := ParseAddr(source)
	if err != nil {
		return Server{}, fmt.Errorf("source: %w", err)
	}
	if addr.Is4() != s.Addr.Addr().Is4() {
		return Server{}, ErrSource
	}
	s.Source = addr
	return s, nil
}

func isAddr(text string) bool {
	_, err := ParseAddr(text)
	return err == nil
}

// via returns the string that parseVia accepts, with its "@".
func (s Server) via() string {
	text := ""
	if s.Interface != "" {
		text = "@" + s.Interface
	}
	if s.Source.IsValid() {
		text += "@" + s.Source.String()
	}
	return text
}
