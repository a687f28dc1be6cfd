package control

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// WriteText prints the status as a page of text.
func (s Status) WriteText(w io.Writer) error {
	notes, problems := s.Notes, s.Problems // some of them have several lines
	s.Notes, s.Problems = nil, nil
	s = termtext.All(s)
	p := newPage(w)
	p.folded(fmt.Sprintf("node-dns %s: running %s, %s%s", s.Version, age(s.Now.Sub(s.Started)), s.readiness(), s.Node.text()), 4)
	p.row("Listening", s.listening())
	p.row("Clients", s.Clients.text())
	if s.Interception != nil {
		p.row("Interception", s.Interception.text(s.Now))
	}
	p.row("Cluster", s.clusterText())
	for _, route := range s.Routes {
		if slices.Contains(s.Cluster.zones(), route.Domain) {
			continue // the cluster row shows its servers
		}
		name := "Upstreams"
		if route.Domain != "." {
			name = "Route"
		}
		p.row(name, route.text(s.Now)+s.insteadOf(route))
	}
	if !slices.ContainsFunc(s.Routes, func(r Route) bool { return r.Domain == "." }) {
		p.row("Upstreams", "none known")
	}
	if s.Bus != nil {
		p.row("D-Bus", s.Bus.text())
	}
	p.row("resolv.conf", s.ResolvConf.text())
	p.row("Cache", s.Cache.text())
	p.row("Queries", s.Queries.text())
	if s.LastMinute != nil {
		p.row(s.LastMinute.name(), s.LastMinute.text())
	}
	if limits := s.Queries.Limits.text(); limits != "" {
		p.row("Limits", limits)
	}
	if slow := s.slowText(); slow != "" {
		p.row("Slow names", slow)
	}
	if s.SELinux != nil {
		p.row("SELinux", s.SELinux.text())
	}
	if watched := s.Watched.text(); watched != "" {
		p.row("Watched", watched)
	}
	if len(s.Hidden) > 0 {
		p.row("Hidden", strings.Join(s.Hidden, ", ")+": shown only to root and the group "+AdminGroup)
	}
	for _, note := range notes {
		p.mark("  ", note)
	}
	for _, problem := range problems {
		p.mark("! ", problem)
	}
	return p.err
}

func (s SELinux) text() string {
	if s.Domain == "" {
		return s.Mode
	}
	return s.Mode + "   domain " + s.Domain
}

func (s Status) readiness() string {
	if s.Ready {
		return "ready"
	}
	return "NOT ready"
}

func (n Node) text() string {
	switch {
	case n.Name == "" && n.IP == "":
		return ""
	case n.IP == "":
		return "   node " + n.Name
	}
	return fmt.Sprintf("   node %s (%s)", n.Name, n.IP)
}

func (s Status) listening() string {
	var words []string
	for _, l := range s.Listeners {
		word := l.Address + " " + protocols(l)
		switch {
		case l.Spare:
			word = l.Address + " used by another program"
		case l.IsFailed():
			word = l.Address + " FAILED (" + l.Error + ")"
		}
		words = append(words, word)
	}
	if len(words) == 0 {
		words = []string{"none"}
	}
	if s.LeftTo != "" {
		words = []string{"none: " + s.LeftTo + " serves this node"}
	}
	if metrics := s.Metrics.text(); metrics != "" {
		words = append(words, metrics)
	}
	return strings.Join(words, "   ")
}

func protocols(l Listener) string {
	switch {
	case l.UDP && l.TCP:
		return "udp+tcp"
	case l.UDP:
		return "udp"
	case l.TCP:
		return "tcp"
	}
	return "not bound"
}

// from returns an additional line that names the source of a value.
func from(source string) string {
	if source == "" || source == "default" {
		return ""
	}
	return "\nfrom " + source
}

// insteadOf returns additional lines with the settings that the route overrides.
func (s Status) insteadOf(route Route) string {
	text := ""
	for _, lost := range s.Overridden {
		if lost.Domain == route.Domain && lost.By != "" {
			text += "\ninstead of " + lost.words("   ") + strings.Replace(from(lost.Source), "\n", " ", 1)
		}
	}
	return text
}

func (l Loss) words(separator string) string {
	if l.Local {
		return noSuchNames
	}
	return orNone(l.Servers, separator)
}

// noSuchNames is shown for a domain whose names are never forwarded.
const noSuchNames = "no such names"

func (r Route) servers(now time.Time) string {
	if r.Local {
		return noSuchNames
	}
	var words []string
	for _, server := range r.Servers {
		words = append(words, server.text(now))
	}
	return orNone(words, "   ")
}

func (r Route) text(now time.Time) string {
	text := r.servers(now) + from(r.Source)
	switch {
	case r.Local:
		return r.Domain + ": " + text
	case r.Domain != ".":
		return r.Domain + " via " + text
	}
	return text
}

func (s Server) text(now time.Time) string {
	switch s.State {
	case "down":
		return fmt.Sprintf("%s DOWN for %s (%s; %d of %d failed)", s.Address, age(now.Sub(s.Since)), s.Error, s.Failures, s.Queries)
	case "up":
		return fmt.Sprintf("%s ok %s", s.Address, milliseconds(s.RTT)) + over(s.over())
	}
	if s.Queries > 0 {
		return fmt.Sprintf("%s no answer yet (asked %d times)", s.Address, s.Queries)
	}
	return s.Address + " not asked yet"
}

// over names a transport. It is empty when there is only one.
func over(transport string) string {
	if transport == "" {
		return ""
	}
	return " over " + transport
}

func (r ResolvConf) text() string {
	text := r.Path + " is not managed by node-dns"
	switch {
	case r.Ours:
		text = r.Path + " is managed by node-dns"
	case r.Owner != "":
		text += " (" + r.Owner + ")"
	}
	text += ": nameserver " + orNone(r.Nameservers, " ") + ", search " + orNone(r.Search, " ")
	if r.Original != "" {
		text += "\noriginal kept in " + r.Original
	}
	if r.DropIn != "" {
		text += "\nsystemd-resolved forwards to this node: " + r.DropIn
	}
	switch {
	case r.Hold != "" && r.Ours:
		text += "\nleft alone except for the nameserver: " + r.Hold
	case r.Hold != "":
		text += "\nleft alone: " + r.Hold
	}
	if len(r.Pending) > 0 {
		text += "\nto be written: " + strings.Join(r.Pending, " ")
	}
	return text
}

func (c Cache) text() string {
	if c.Size == 0 {
		return "off"
	}
	text := fmt.Sprintf("%d/%d entries", c.Entries, c.Size)
	if asked := c.Hits + c.Misses; asked > 0 {
		text += fmt.Sprintf("   hits %.1f %%", 100*float64(c.Hits)/float64(asked))
	}
	if c.Evictions > 0 {
		text += fmt.Sprintf("   evicted %d", c.Evictions)
	}
	return text
}

// number formats a count with its noun.
func number[N int | uint64](n N, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (q Queries) text() string {
	text := fmt.Sprintf("%d over UDP, %d over TCP", q.UDP, q.TCP)
	if q.Shed > 0 {
		text += fmt.Sprintf(", %d SERVFAIL at a limit", q.Shed)
	}
	if q.Moved > 0 {
		text += fmt.Sprintf(", %d moved to TCP after invalid responses", q.Moved)
	}
	if q.Panics > 0 {
		text += fmt.Sprintf(", %d PANICS", q.Panics)
	}
	return text
}

// manyNetworks is the maximum number of client networks in the text.
const manyNetworks = 6

func (c Clients) text() string {
	text := "only this host"
	switch networks := c.Networks; {
	case slices.Contains(c.AllowFrom, "all"):
		text = "everyone"
	case len(networks) > manyNetworks:
		text = fmt.Sprintf("%s and %d more", strings.Join(networks[:manyNetworks], " "), len(networks)-manyNetworks)
	case len(networks) > 0:
		text = strings.Join(networks, " ")
	}
	if c.RateLimit > 0 {
		text += fmt.Sprintf("   %d queries per second each", c.RateLimit)
	}
	return text
}

// text names the limits that were reached. It is empty if there were none.
func (l Limits) text() string {
	var words []string
	for _, limit := range []struct {
		count uint64
		what  string
	}{
		{l.Strangers, "queries refused: client network not allowed"},
		{l.Hasty, "refused: clientRateLimit"},
		{l.Crowding, "failed: too many pending queries of one client"},
		{l.Costly, "failed: too much upstream traffic for one client"},
		{l.Full, "failed: too many pending queries"},
		{l.Upstream, "failed: dnsForwardMax, or no socket"},
		{l.Silenced, "refusals over UDP above their limit"},
		{l.TCPRefused, "connections refused"},
		{l.TCPIdle, "idle connections closed for new ones"},
		{l.NoDescriptors, "connections refused: no file descriptor"},
	} {
		if limit.count > 0 {
			words = append(words, fmt.Sprintf("%d %s", limit.count, limit.what))
		}
	}
	if l.Crowder != "" {
		words = append(words, "client above its share: "+ClientText(l.Crowder, l.CrowderPod))
	}
	if l.Stranger != "" {
		words = append(words, "client not allowed: "+ClientText(l.Stranger, l.StrangerPod))
	}
	return strings.Join(words, ", ")
}

// ClientText formats an address with its pod, if the pod is known.
func ClientText(address, pod string) string {
	if pod == "" {
		return address
	}
	return address + ", pod " + pod
}
