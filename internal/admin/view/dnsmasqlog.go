package view

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// maxRecords limits the lines for one answer.
const maxRecords = 20

// logLines returns the lines that dnsmasq 2.90 writes with log-queries, which admins and monitoring
// tools look for: the query, the server it was forwarded to, and each record. Names have no final
// dot. Characters that are not printable ASCII are escaped, where dnsmasq writes "<name
// unprintable>".
func logLines(seen *dnsserver.Seen) []string {
	name := orRoot(seenName(seen))
	lines := []string{fmt.Sprintf("query[%s] %s from %s", seenType(seen), name, seenClient(seen))}
	if !seen.Server.IsZero() {
		lines = append(lines, fmt.Sprintf("forwarded %s to %s", name, serverWord(seen.Server)))
	}
	rcode, sent := seenRcode(seen)
	if !sent {
		return lines
	}
	source, why := logSource(seen.Outcome), ""
	if seen.Why != "" {
		why = " (EDE: " + seen.Why + ")"
	}
	var m dns.Msg
	switch err := m.Unpack(seen.Response); {
	case rcode == dns.RcodeNameError && err == nil && len(m.Answer) == 0:
		return append(lines, fmt.Sprintf("%s %s is NXDOMAIN", source, name))
	case rcode != dns.RcodeSuccess && rcode != dns.RcodeNameError || err != nil:
		return append(lines, fmt.Sprintf("%s error is %s%s", source, cmp.Or(dns.RcodeToString[rcode], strconv.Itoa(rcode)), why))
	case len(m.Answer) == 0:
		return append(lines, fmt.Sprintf("%s %s is %s", source, name, noData(seenType(seen))))
	}
	for _, rr := range m.Answer[:min(len(m.Answer), maxRecords)] {
		lines = append(lines, fmt.Sprintf("%s %s", source, recordWords(rr)))
	}
	if more := len(m.Answer) - maxRecords; more > 0 {
		lines = append(lines, fmt.Sprintf("%s %s is <%d more>", source, name, more))
	}
	return lines
}

// extraLines returns the logLines for log-queries=extra, each with the query's number and the
// client at the beginning.
func extraLines(number uint64, seen *dnsserver.Seen) []string {
	lines := logLines(seen)
	for i, line := range lines {
		lines[i] = fmt.Sprintf("%d %s/%d %s", number, seenClient(seen), seen.Client.Port(), line)
	}
	return lines
}

// logSource returns dnsmasq's word for the source of an answer.
func logSource(outcome dnsserver.Outcome) string {
	switch outcome {
	case dnsserver.ByUpstream:
		return "reply"
	case dnsserver.ByStale:
		return "cached-stale"
	case dnsserver.ByMemory, dnsserver.ByFailure:
		return "cached"
	}
	return "config"
}

func recordWords(rr dns.RR) string {
	name := orRoot(rr.Header().Name)
	switch rr := rr.(type) {
	case *dns.A:
		return name + " is " + rr.A.String()
	case *dns.AAAA:
		return name + " is " + rr.AAAA.String()
	case *dns.CNAME:
		return name + " is <CNAME>"
	case *dns.TXT: // package dns escapes everything but printable ASCII
		return name + " is " + strings.Join(rr.Txt, " ")
	case *dns.PTR:
		if addr, ok := reversed(rr.Hdr.Name); ok {
			return addr.String() + " is " + orRoot(rr.Ptr)
		}
	}
	return name + " is <" + dnswire.TypeText(rr.Header().Rrtype) + ">"
}

// reversed returns the address whose PTR records have this name.
func reversed(name string) (netip.Addr, bool) {
	labels := dns.SplitDomainName(strings.ToLower(name))
	const nibbles = 32
	text := ""
	switch {
	case len(labels) == 4+2:
		text = strings.Join([]string{labels[3], labels[2], labels[1], labels[0]}, ".")
	case len(labels) == nibbles+2:
		for i := nibbles - 1; i >= 0; i-- {
			if text += labels[i]; i%4 == 0 && i > 0 {
				text += ":"
			}
		}
	}
	addr, err := netip.ParseAddr(text)
	return addr, err == nil && dnsname.Reverse(addr).String() == strings.ToLower(name)
}

func noData(qtype string) string {
	switch qtype {
	case "A":
		return "NODATA-IPv4"
	case "AAAA":
		return "NODATA-IPv6"
	}
	return "NODATA"
}

// serverWord formats a server, with the port if it is not 53.
func serverWord(server nameserver.Server) string {
	text := server.Addr.Addr().String()
	if port := server.Addr.Port(); port != nameserver.Port {
		text += "#" + strconv.Itoa(int(port))
	}
	return text
}

func orRoot(name string) string { return cmp.Or(strings.TrimSuffix(name, "."), ".") }
