package clusterdns

import (
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// Limits of the hosts plugins of a Corefile.
const (
	maxHostTTL          = 65535 // as in CoreDNS
	maxHostWords        = 200_000
	maxFallthroughZones = 256 // zones of fallthrough
	maxAddresses        = 100 // of a name
)

// hosts has the settings of a hosts plugin.
type hosts struct {
	zones            []dnsname.Name // the names that it answers for
	entries          [][]token
	ttl              int
	noReverse        bool
	fallsThroughAll  bool           // a name without an entry goes to the next plugin
	fallthroughZones []dnsname.Name // likewise for names of these zones
	incomplete       bool           // some entries cannot be read
}

// readHosts reads hosts [FILE [ZONES...]] { ADDRESS NAMES...; OPTIONS }.
func (c *corefile) readHosts(b *server, d directive) {
	where := d.name.where()
	h := hosts{ttl: Unset}
	var zones []token
	isUnknown := false // a zone cannot be read
	if len(d.args) > 0 {
		zones = d.args[1:]
		c.readHostsFile(&h, d.args[0])
	}
	for _, zone := range b.zones {
		if len(zones) == 0 {
			h.zones = append(h.zones, zone.name)
		}
	}
	for _, t := range zones {
		zone, _, wrong := parseZone(t)
		if wrong != "" {
			c.report(where, "zone %s: %s", quote(t.text), wrong)
			isUnknown = true
			continue
		}
		for _, common := range c.within(b, zone, where) {
			if !slices.Contains(h.zones, common) {
				h.zones = append(h.zones, common)
			}
		}
	}
	for _, line := range d.lines {
		c.readHostsLine(&h, line)
	}
	if isUnknown && !h.fallsThroughAll {
		c.keepUnknown(where)
	}
	c.addHosts(b, &h)
	for _, zone := range h.zones {
		c.closeZone(b, &h, zone, where)
	}
}

// readHostsFile reads a file that is a key of the same ConfigMap, as in k3s, or of coredns-custom.
func (c *corefile) readHostsFile(h *hosts, t token) {
	base := path.Base(t.text)
	for _, o := range c.mounted() {
		text, ok := o.Data[base]
		if !ok || t.hasEnv() {
			continue
		}
		if len(text) > maxValue {
			c.reportMalformed(o, o.at(base), "it is longer than %d bytes", maxValue)
			break
		}
		file := o.at(base)
		if _, ok := c.files[file]; !ok {
			c.files[file] = hostsEntries(file, text)
		}
		h.entries = slices.Clip(c.files[file])
		return
	}
	c.report(t.where(), "hosts file %s: its contents are unknown", quote(t.text))
	h.incomplete = true
}

// hostsEntries returns the words of each line of a hosts file, without comments.
func hostsEntries(file, text string) (entries [][]token) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		var words []token
		for word := range strings.FieldsSeq(line) {
			words = append(words, token{text: word, file: file, line: number})
		}
		if len(words) > 0 {
			entries = append(entries, words)
		}
	}
	return entries
}

// mounted returns the ConfigMaps whose keys CoreDNS sees as files.
func (c *corefile) mounted() []Object {
	if c.custom == nil {
		return []Object{c.object}
	}
	return []Object{c.object, c.custom.object}
}

// readHostsLine reads an option or stores an entry.
func (c *corefile) readHostsLine(h *hosts, line []token) {
	where := line[0].where()
	switch option := line[0].text; option {
	case "ttl":
		ttl, err := 0, error(strconv.ErrSyntax)
		if len(line) == 2 {
			ttl, err = strconv.Atoi(line[1].text)
		}
		if err != nil || ttl < 0 || ttl > maxHostTTL {
			c.report(where, "ttl: expected a number from 0 to %d", maxHostTTL)
			return
		}
		h.ttl = ttl
	case "no_reverse":
		h.noReverse = true
	case "reload":
	case "fallthrough":
		h.fallsThroughAll = h.fallsThroughAll || len(line) == 1
		for _, t := range line[1:] {
			zone, _, wrong := parseZone(t)
			if wrong == "" && len(h.fallthroughZones) == maxFallthroughZones {
				wrong = "there are too many zones"
			}
			if wrong != "" {
				c.report(where, "fallthrough %s: %s", quote(t.text), wrong)
				h.incomplete = true
				continue
			}
			h.fallthroughZones = append(h.fallthroughZones, zone)
		}
	default:
		h.entries = append(h.entries, line)
	}
}

// addHosts adds the entries with names that the block answers for.
func (c *corefile) addHosts(b *server, h *hosts) {
	zones := map[dnsname.Name]bool{}
	for _, zone := range h.zones {
		zones[zone] = true
	}
	for _, entry := range h.entries {
		where := entry[0].where()
		if c.words += len(entry); c.words > maxHostWords {
			c.report(where, "the hosts entries have more than %d words; the rest is not used", maxHostWords)
			h.incomplete = true
			return
		}
		addr, err := netip.ParseAddr(entry[0].text)
		if err != nil {
			c.report(where, "%s: expected an IP address with names", quote(entry[0].text))
			continue
		}
		host := Host{Addr: addr.Unmap().WithZone(""), TTL: h.ttl, Where: where}
		for _, t := range entry[1:] {
			name, err := dnsname.Parse(t.text)
			switch {
			case err != nil || strings.Contains(t.text, "*"):
				c.report(where, "%s: expected a host name", quote(t.text))
			case isBelow(name, zones) && c.isServed(b, name, where) && c.spendAddress(name, host.Addr, where):
				host.Names = append(host.Names, name)
			}
		}
		switch {
		case len(entry) == 1:
			c.report(where, "%s: expected names after the address", quote(entry[0].text))
		case len(host.Names) == 0:
		case len(c.settings.Hosts) >= maxHosts:
			c.report(where, "there are more than %d hosts entries; the rest is not used", maxHosts)
			h.incomplete = true
			return
		default:
			// A query for a PTR record reaches the plugin only if its block serves the reverse
			// name.
			reverse, _ := c.owner(dnsname.Reverse(host.Addr))
			host.NoReverse = h.noReverse || reverse != b
			c.settings.Hosts = append(c.settings.Hosts, host)
		}
	}
}

// spendAddress reports whether addr is a new address of name and within maxAddresses.
func (c *corefile) spendAddress(name dnsname.Name, addr netip.Addr, where string) bool {
	addrs := c.addrs[name]
	switch {
	case slices.Contains(addrs, addr):
		return false
	case len(addrs) < maxAddresses:
		c.addrs[name] = append(addrs, addr)
		return true
	case !c.hasTooMany:
		c.hasTooMany = true
		c.report(where, "%s has more than %d addresses; only the first %d of a name are used", name.Relative(), maxAddresses, maxAddresses)
	}
	return false
}

// isBelow reports whether name is in one of the zones.
func isBelow(name dnsname.Name, zones map[dnsname.Name]bool) bool {
	for zone := name; !zone.IsZero(); zone = zone.Parent() {
		if zones[zone] {
			return true
		}
	}
	return false
}

// closeZone adds a Local route if names of the zone exist only if the plugin has them.
func (c *corefile) closeZone(b *server, h *hosts, zone dnsname.Name, where string) {
	if h.fallsThroughAll || slices.ContainsFunc(h.fallthroughZones, zone.Within) {
		return
	}
	isPartial := slices.ContainsFunc(h.fallthroughZones, func(fall dnsname.Name) bool { return fall.Within(zone) })
	switch {
	case zone.IsRoot():
		c.report(where, "without fallthrough, no other name exists in CoreDNS; node-dns still resolves other names")
	case isPartial:
		c.report(where, "fallthrough for a part of %s only; node-dns still resolves its other names", zone.Relative())
		c.keep(zone, where)
	case !c.isServed(b, zone, where):
	case h.incomplete:
		c.keep(zone, where)
	default:
		b.answered[zone] = where
		c.add(Route{Domain: zone, Local: true, Where: where})
	}
}
