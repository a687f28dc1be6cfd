package dnsmasqconf

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

type reader func(l *loader, name, text string)

// readers returns the readers of the options whose argument is not just a number.
func readers() map[string]reader {
	return map[string]reader{
		"addn-hosts":       readPath(func(c *Config) *[]string { return &c.HostsFile }),
		"address":          readAddress,
		"alias":            readAlias,
		"bogus-nxdomain":   readPrefix(func(c *Config) *[]netip.Prefix { return &c.Bogus }),
		"caa-record":       readCAA,
		"cname":            readCNAME,
		"conf-dir":         readConfDir,
		"conf-file":        readConfFile,
		"dns-rr":           readRR,
		"domain":           readDomain,
		"domain-suffix":    readDomain,
		"edns-packet-max":  readPacketMax,
		"except-interface": readInterfaces(func(c *Config) *[]string { return &c.Except }),
		"host-record":      readHost,
		"hostsdir":         readPath(func(c *Config) *[]string { return &c.HostsFile }),
		"ignore-address":   readPrefix(func(c *Config) *[]netip.Prefix { return &c.Ignored }),
		"interface":        readInterfaces(func(c *Config) *[]string { return &c.Interfaces }),
		"listen-address":   readListen,
		"local":            readServer,
		"log-queries":      readLogQueries,
		"max-port":         readPort,
		"min-port":         readPort,
		"mx-host":          readMX,
		"mx-target":        readMX,
		"naptr-record":     readNAPTR,
		"port":             readListenPort,
		"ptr-record":       readPTR,
		"rebind-domain-ok": readRebindOK,
		"resolv-file":      readPath(func(c *Config) *[]string { return &c.ResolvFile }),
		"rev-server":       readRevServer,
		"server":           readServer,
		"srv-host":         readSRV,
		"txt-record":       readText,
		"use-stale-cache":  readStale,
	}
}

// readLogQueries accepts any word and knows only one, like 2.90; later versions know more.
func readLogQueries(l *loader, name, text string) {
	l.config.Flags[name], l.config.LogExtra = true, l.config.LogExtra || text == "extra"
}

// readPort parses a port; 0 is allowed.
func readPort(l *loader, name, text string) {
	if port, ok := l.uint16(name, shown(text), 0); ok {
		l.config.Numbers[name] = int(port)
	}
}

// byDefaultStale is how long after its TTL an answer is used with use-stale-cache without a number,
// in seconds.
const byDefaultStale = 24 * 60 * 60

// readStale parses the time limit; 0 means no limit.
func readStale(l *loader, name, text string) {
	if text == "" {
		l.config.Numbers[name] = byDefaultStale
		return
	}
	if l.number(name, text); l.config.Number(name) == 0 {
		l.config.Numbers[name] = math.MaxInt32
	}
}

// readListenPort parses port=. Admins set 0 if dnsmasq serves DHCP next to node-dns.
func readListenPort(l *loader, name, text string) {
	if readPort(l, name, text); l.config.Number(name) == 0 {
		l.setAside(name, "0 disables dnsmasq's own DNS, next to which node-dns serves")
	}
}

// Limits of edns-packet-max, in bytes. Every client accepts the lower one (RFC 1035 section
// 4.2.1). Sizes up to the upper one were used before 2020, but lead to fragments, which firewalls
// drop and attackers can forge (RFC 9715).
const (
	smallestUDP = 512
	largestUDP  = dnswire.MaxUDP
)

func readPacketMax(l *loader, name, text string) {
	l.number(name, text)
	n := l.config.Number(name)
	if n > largestUDP {
		l.setAside(name, fmt.Sprintf("UDP messages above %d bytes are fragmented; node-dns uses %d, and TCP for larger answers", largestUDP, largestUDP))
	}
	if n != Unset {
		l.config.Numbers[name] = min(max(n, smallestUDP), largestUDP)
	}
}

func readPath(into func(*Config) *[]string) reader {
	return func(l *loader, _, text string) {
		if text != "" {
			paths := into(&l.config)
			*paths = append(*paths, l.path(shown(text)))
		}
	}
}

func readPrefix(into func(*Config) *[]netip.Prefix) reader {
	return func(l *loader, name, text string) {
		text = shown(text)
		prefix, err := parseNetwork(text)
		if err != nil {
			l.fault(name, "an IP address, or a network", nodeconfig.Quote(text))
			return
		}
		prefixes := into(&l.config)
		*prefixes = append(*prefixes, prefix.Masked())
	}
}

// parseNetwork parses a network, or a single address.
func parseNetwork(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

func readInterfaces(into func(*Config) *[]string) reader {
	return func(l *loader, _, text string) {
		names := into(&l.config)
		for _, name := range list(text) {
			if name != "" && !slices.Contains(*names, name) {
				*names = append(*names, name)
			}
		}
	}
}

func readListen(l *loader, name, text string) {
	for _, part := range list(text) {
		addr, err := nameserver.ParseAddr(part)
		if err != nil {
			l.fault(name, "an IP address", nodeconfig.Quote(part))
			return
		}
		l.config.Listen = append(l.config.Listen, addr)
	}
}

// readRebindOK parses /a/b/, or one domain.
func readRebindOK(l *loader, name, text string) {
	for _, part := range strings.Split(strings.Trim(text, "/"), "/") {
		if domain, ok := l.suffix(name, part); ok {
			l.config.RebindOK = append(l.config.RebindOK, domain)
		}
	}
}

// readDomain accepts the domain for all names. A domain for a network is for DHCP.
func readDomain(l *loader, name, text string) {
	parts := list(text)
	switch {
	case len(parts) > 1:
		l.setAside(name, "a domain for one network applies only to DHCP names")
	case parts[0] == "#":
		l.setAside(name, "the domain is not read from resolv.conf; write its name")
	case parts[0] != "":
		if domain, ok := l.domain(name, parts[0]); ok {
			l.config.Domain = domain
		}
	}
}

// domain parses a name with parseDomain, and suffix with parseSuffix.
func (l *loader) domain(option, text string) (dnsname.Name, bool) {
	return l.parsed(option, text, parseDomain)
}

func (l *loader) suffix(option, text string) (dnsname.Name, bool) {
	return l.parsed(option, text, parseSuffix)
}

func (l *loader) parsed(option, text string, parse func(string) (dnsname.Name, error)) (dnsname.Name, bool) {
	name, err := parse(shown(text))
	if err != nil {
		l.fault(option, "a domain name", nodeconfig.Quote(shown(text))+", "+err.Error())
	}
	return name, err == nil
}

// readServer parses what ParseRules does, with two differences. In a file // stands for names
// without dots. An empty argument has no effect: scripts with an empty list write it.
func readServer(l *loader, name, text string) {
	if text == "" {
		l.setAside(name, "the option has no server")
		return
	}
	domains, server, ok := l.split(name, text)
	if !ok {
		return
	}
	l.addRules(name, server, domains)
}

// split splits /a/b/rest. No domains means all names.
func (l *loader) split(name, text string) (domains []string, rest string, ok bool) {
	text = shown(text) // a slash in quotes also separates
	if !strings.HasPrefix(text, "/") {
		return nil, text, true
	}
	parts := strings.Split(text[1:], "/")
	if len(parts) < 2 {
		l.fault(name, "/domain/ in front, with both slashes", nodeconfig.Quote(text))
		return nil, "", false
	}
	return parts[:len(parts)-1], parts[len(parts)-1], true
}

func (l *loader) addRules(name, server string, domains []string) {
	if domains == nil {
		domains = []string{"*"}
	}
	for _, domain := range domains {
		rules, err := NewRules(server, []string{domain})
		if err != nil {
			got := err.Error()
			if bad := (invalid{}); errors.As(err, &bad) {
				got = fmt.Sprintf("%s (%v)", nodeconfig.Quote(bad.text), bad.why)
			}
			l.fault(name, "a server such as IP, IP#port or /domain/IP", got)
			return
		}
		for _, rule := range rules {
			rule.Plain = domain == ""
			if len(l.config.Servers) == MaxRules {
				l.fault(name, "at most 1000 servers and domains", "more")
				return
			}
			l.config.Servers = append(l.config.Servers, Server{rule, l.place()})
		}
	}
}

// readRevServer parses NETWORK[/bits],server: the servers of a reverse zone. A prefix length
// between two labels gives several zones.
func readRevServer(l *loader, name, text string) {
	network, server, _ := strings.Cut(text, ",")
	network = shown(strings.TrimSpace(network))
	prefix, err := parseNetwork(network)
	if err != nil || prefix.Bits() == 0 {
		l.fault(name, "a network, as 10.1.0.0/16", nodeconfig.Quote(network))
		return
	}
	var domains []string
	for _, zone := range dnsname.ReverseZones(prefix.Masked()) {
		domains = append(domains, zone.String())
	}
	l.addRules(name, shown(strings.TrimSpace(server)), domains)
}

// readAddress parses address=/a/b/IP. Without an address the names of the domains do not exist. #
// stands for 0.0.0.0 and ::.
func readAddress(l *loader, name, text string) {
	domains, value, ok := l.split(name, text)
	if !ok {
		return
	}
	if value == "" {
		if domains == nil {
			l.setAside(name, "the option has no domain")
			return
		}
		l.addRules(name, "", domains)
		return
	}
	address := Address{Place: l.place()}
	if value != "#" {
		addr, err := netip.ParseAddr(value)
		if err != nil || addr.Zone() != "" {
			l.fault(name, "an IP address or #", nodeconfig.Quote(value))
			return
		}
		address.Addr = addr.Unmap()
	}
	if domains == nil {
		domains = []string{"*"}
	}
	for _, text := range domains {
		if address.Plain = text == ""; text == "#" {
			text = "*"
		}
		if address.Domain, ok = l.suffix(name, text); ok {
			l.config.Addresses = append(l.config.Addresses, address)
		}
	}
}

// A Reader reads the files again only if one of them may have changed, because hosts files with
// 200,000 names take 0.2 s. It belongs to one goroutine.
type Reader struct {
	paths  Paths
	config Config
	err    error
	stamps string // the stamps of config; "" forces a new read
}

// NewReader returns a Reader that has read nothing yet.
func NewReader(paths Paths) *Reader { return &Reader{paths: paths} }

// Load is the function Load, but returns its last result if no file has changed.
func (r *Reader) Load() (Config, error) {
	if r.stamps != "" && r.stampsOf(time.Now()) == r.stamps {
		return r.config, r.err
	}
	begin := time.Now()
	r.config, r.err = Load(r.paths)
	r.stamps = r.stampsOf(begin)
	return r.config, r.err
}

// tick is how long a written file may keep its old times. The kernel's timestamps have the
// resolution of its clock tick, at most 10 ms. Those of a network file system may have a resolution
// of seconds.
const tick = 2 * time.Second

// stampsOf returns a string that identifies the current state of the files and directories. It is
// "" if one has just changed and may change again in the same clock tick.
func (r *Reader) stampsOf(now time.Time) string {
	var all strings.Builder
	usual := []string{r.paths.Conf, r.paths.Dir, r.paths.Hosts}
	for _, path := range slices.Concat(usual, r.config.Files, r.config.Dirs, r.config.Others) {
		info, err := os.Stat(path)
		if err != nil {
			fmt.Fprintf(&all, "%s: %v\n", path, err)
			continue
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || now.Sub(time.Unix(stat.Ctim.Unix())).Abs() < tick {
			return ""
		}
		fmt.Fprintln(&all, path, stat.Dev, stat.Ino, stat.Size, stat.Mode, stat.Mtim, stat.Ctim)
	}
	return all.String()
}
