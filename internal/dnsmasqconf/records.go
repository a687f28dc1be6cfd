package dnsmasqconf

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// name parses the name of a record: a valid name other than the root.
func (l *loader) name(option, text string) (dnsname.Name, bool) {
	name, err := parseDomain(text)
	switch {
	case err != nil:
		l.fault(option, "a name", nodeconfig.Quote(text)+", "+err.Error())
	case name.IsRoot():
		l.fault(option, "a name", nodeconfig.Quote(text))
		err = dnsname.ErrLabel
	}
	return name, err == nil
}

// uint16 parses a number of a record; "" gives the default.
func (l *loader) uint16(option, text string, byDefault uint16) (uint16, bool) {
	if text == "" {
		return byDefault, true
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		l.fault(option, "a number from 0 to 65535", nodeconfig.Quote(text))
	}
	return uint16(n), err == nil
}

func ttl(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil
}

// readHost parses host-record=NAME,…,IP,…,TTL. A lone number is the TTL at any position. The last
// address of each family counts.
func readHost(l *loader, option, text string) {
	host := Host{TTL: Unset, Place: l.place()}
	for _, part := range list(text) {
		if n, ok := ttl(part); ok {
			host.TTL = n
		} else if addr, err := netip.ParseAddr(part); err == nil && addr.Zone() == "" {
			addr = addr.Unmap()
			host.Addrs = append(slices.DeleteFunc(host.Addrs, func(a netip.Addr) bool { return a.Is4() == addr.Is4() }), addr)
		} else if part != "" {
			name, ok := l.name(option, part)
			if !ok {
				return
			}
			host.Names = append(host.Names, name)
		}
	}
	switch {
	case len(host.Names) == 0:
		l.fault(option, "a name and an address", nodeconfig.Quote(shown(text)))
	case len(host.Addrs) == 0:
		l.setAside(option, "the option has no address")
	default:
		l.hosts = append(l.hosts, host)
	}
}

// readCNAME parses cname=ALIAS,…,TARGET[,TTL].
func readCNAME(l *loader, option, text string) {
	parts := list(text)
	c := CNAME{TTL: Unset, Place: l.place()}
	if n, ok := ttl(parts[len(parts)-1]); ok {
		c.TTL, parts = n, parts[:len(parts)-1]
	}
	if len(parts) < 2 {
		l.fault(option, "an alias and its target", nodeconfig.Quote(shown(text)))
		return
	}
	var ok bool
	if c.Target, ok = l.name(option, parts[len(parts)-1]); !ok {
		return
	}
	for _, alias := range parts[:len(parts)-1] {
		if len(alias) > 1 && alias[:2] == "*." {
			l.setAside(option, "an alias with * is for auth-zone")
			continue
		}
		if c.Alias, ok = l.name(option, alias); !ok {
			return
		}
		for _, other := range l.config.CNAMEs {
			if other.Alias == c.Alias {
				l.fault(option, "one target of an alias", fmt.Sprintf("%s a second time", c.Alias.Relative()))
				return
			}
		}
		l.config.CNAMEs = append(l.config.CNAMEs, c)
	}
}

// checkAliases removes aliases that form a loop.
func (l *loader) checkAliases() {
	next := map[dnsname.Name]dnsname.Name{}
	for _, c := range l.config.CNAMEs {
		next[c.Alias] = c.Target
	}
	var kept []CNAME
	for _, c := range l.config.CNAMEs {
		at, steps := c.Target, 0
		for ; !at.IsZero() && steps <= len(next); steps++ {
			at = next[at]
		}
		if at.IsZero() {
			kept = append(kept, c)
			continue
		}
		place := l.config.Sources["cname"]
		l.at = position{place.File, place.Line, 1}
		l.fault("cname", "an alias without a loop", c.Alias.Relative()+", which leads back to itself")
	}
	l.config.CNAMEs = kept
}

// readText parses txt-record=NAME,text,…; each text is a separate string.
func readText(l *loader, option, text string) {
	parts := list(text)
	name, ok := l.name(option, parts[0])
	if !ok {
		return
	}
	texts := parts[1:]
	if len(texts) == 0 {
		texts = []string{""}
	}
	for _, part := range texts {
		if len(part) > math.MaxUint8 {
			l.fault(option, "texts of at most 255 bytes", "a longer one")
			return
		}
	}
	l.add(name, &dns.TXT{Hdr: header(dns.TypeTXT), Txt: escaped(texts)})
}

// escaped returns strings in miekg/dns's form for records: with a backslash before backslashes and
// quotes, and with \DDD for unprintable bytes.
func escaped(texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		var b strings.Builder
		for _, c := range []byte(text) {
			switch {
			case c == '"' || c == '\\':
				b.WriteByte('\\')
				b.WriteByte(c)
			case c < ' ' || c > '~':
				fmt.Fprintf(&b, `\%03d`, c)
			default:
				b.WriteByte(c)
			}
		}
		out[i] = b.String()
	}
	return out
}

// field returns one of the parts, or "" if there are fewer.
func field(parts []string, i int) string {
	if i < len(parts) {
		return parts[i]
	}
	return ""
}

// readSRV parses srv-host=_SERVICE._PROTOCOL[.DOMAIN][,TARGET[,PORT[,PRIORITY[,WEIGHT]]]].
func readSRV(l *loader, option, text string) {
	parts := list(text)
	name, ok := l.name(option, parts[0])
	if !ok {
		return
	}
	target := dnsname.Root()
	if field(parts, 1) != "" {
		if target, ok = l.name(option, parts[1]); !ok {
			return
		}
	}
	s := &dns.SRV{Hdr: header(dns.TypeSRV), Target: target.String()}
	for i, number := range []*uint16{&s.Port, &s.Priority, &s.Weight} {
		byDefault := uint16(0)
		if i == 0 {
			byDefault = 1
		}
		if *number, ok = l.uint16(option, field(parts, i+2), byDefault); !ok {
			return
		}
	}
	if len(parts) > 5 {
		l.fault(option, "at most a name, a target and three numbers", nodeconfig.Quote(shown(text)))
		return
	}
	l.add(name, s)
}

// readPTR parses ptr-record=NAME[,TARGET].
func readPTR(l *loader, option, text string) {
	parts := list(text)
	name, ok := l.name(option, parts[0])
	if !ok {
		return
	}
	if field(parts, 1) == "" {
		l.setAside(option, "the option has no target")
		return
	}
	if target, ok := l.name(option, parts[1]); ok {
		l.config.PTRs = append(l.config.PTRs, Record{name, &dns.PTR{Hdr: header(dns.TypePTR), Ptr: target.String()}, l.place()})
	}
}

// readMX parses mx-host=NAME[,TARGET[,PREFERENCE]]. mx-target is stored as an MX without a name.
func readMX(l *loader, option, text string) {
	parts := list(text)
	name, ok := l.name(option, parts[0])
	if !ok {
		return
	}
	if option == "mx-target" {
		l.config.MXs = append(l.config.MXs, MX{Target: name, Place: l.place()})
		return
	}
	m := MX{Name: name, Preference: 1, Place: l.place()}
	if m.Preference, ok = l.uint16(option, field(parts, 2), 1); !ok {
		return
	}
	if field(parts, 1) != "" {
		if m.Target, ok = l.name(option, parts[1]); !ok {
			return
		}
	}
	l.config.MXs = append(l.config.MXs, m)
}
