package doctor

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
)

// verdict describes the state of a nameserver. Nameservers with equal verdicts have one cause and
// are reported together.
type verdict struct {
	level     Level
	what, fix string // strings that follow the name
	odd       string // details, one per line
}

// together evaluates the nameservers and returns one finding per cause.
func (s Snapshot) together(all []Probe) []Finding {
	var verdicts []verdict
	groups := map[verdict][]Probe{}
	for _, p := range all {
		v := s.judge(p)
		if groups[v] == nil {
			verdicts = append(verdicts, v)
		}
		groups[v] = append(groups[v], p)
	}
	var found []Finding
	for _, v := range verdicts {
		f := Finding{Level: v.level, What: nameAll(groups[v]) + " " + v.what, Fix: strings.ReplaceAll(v.fix, hostsWord, hostsOf(groups[v]))}
		if v.odd != "" {
			f.Details = strings.Split(v.odd, "\n")
		}
		found = append(found, f)
	}
	return found
}

// hostsWord is the placeholder for nameserver addresses in a fix.
const hostsWord = "HOSTS"

func hostsOf(all []Probe) string {
	var hosts []string
	for _, p := range all {
		host := p.Server
		if server, err := nameserver.Parse(p.Server); err == nil {
			host = server.Addr.Addr().WithZone("").String()
		}
		hosts = append(hosts, host)
	}
	return strings.Join(hosts, ", ")
}

// nameAll formats nameservers, as in "upstream 192.0.2.1:53 (and upstream 192.0.2.2:53)".
func nameAll(all []Probe) string {
	var names []string
	for _, p := range all {
		names = append(names, p.name())
	}
	if len(names) == 1 {
		return names[0]
	}
	return names[0] + " (and " + strings.Join(names[1:], ", ") + ")"
}

// judge evaluates one nameserver.
func (s Snapshot) judge(p Probe) verdict {
	others := p.replaceable(s.Upstreams)
	switch {
	case !p.answers():
		return s.silent(p, others)
	case s.isBogus(p):
		return s.bad(p, others, verdict{
			what: "answers SERVFAIL because DNSSEC validation fails; without validation the names resolve",
			fix:  "correct the clock and the trust anchor of that nameserver", odd: s.bogusNames(p),
		})
	case s.isFailing(p):
		return s.bad(p, others, verdict{
			what: "answers SERVFAIL for every name", odd: strings.Join(s.namesOf(p), "\n"),
			fix: "see the log of that nameserver: usually it cannot reach its own upstream servers",
		})
	case p.TLS:
		return verdict{level: OK, what: "answers over TLS (" + p.TCP.words() + ")"}
	}
	if name, size := s.lostAnswer(p); name != "" {
		what := fmt.Sprintf("sends answers of more than 512 bytes that are lost over UDP: %s (%d bytes) arrives only over TCP", name, size)
		v := verdict{level: Fail, what: what, fix: s.smallerAnswers() + "allow datagrams and fragments of 1232 bytes in every firewall on the path"}
		if s.resolves(name) {
			v.level = Warn
		}
		return v
	}
	var odd []string
	best := p.EDNS
	if p.EDNS.Err != nil || p.EDNS.Rcode == "FORMERR" || p.EDNS.Rcode == "NOTIMP" { // RFC 6891 section 7
		best = p.UDP
	}
	if p.EDNS.Err != nil {
		odd = append(odd, fmt.Sprintf("it does not answer queries with EDNS (RFC 6891): %v", p.EDNS.Err))
	} else if !p.EDNS.EDNS {
		odd = append(odd, "it does not support EDNS (RFC 6891): answers of more than 512 bytes need TCP")
	}
	if p.TCP.Err != nil {
		odd = append(odd, fmt.Sprintf("it does not answer over TCP: %v: answers that do not fit a datagram are lost", p.TCP.Err))
	}
	if p.Large.Err != nil && p.EDNS.Err == nil {
		odd = append(odd, fmt.Sprintf("a large answer does not arrive over UDP: %v: something on the path drops fragments or datagrams of that size", p.Large.Err))
	}
	if best.Rcode == "REFUSED" {
		return verdict{Warn, "refuses the queries (REFUSED)", "it may not serve this node's network: check its access rules, or remove it from its source (see node-dns servers)", strings.Join(odd, "\n")}
	}
	if len(odd) == 1 && p.EDNS.Err == nil && !p.EDNS.EDNS { // not caused by a firewall
		return verdict{Warn, "answers over UDP but does not support EDNS (RFC 6891): answers of more than 512 bytes need TCP", "names still resolve; update that nameserver to a version with EDNS", ""}
	}
	if len(odd) > 0 {
		return verdict{Warn, "answers over UDP, but not every query", "allow TCP and UDP port 53 and datagrams of 1232 bytes in every firewall on the path", strings.Join(odd, "\n")}
	}
	return verdict{level: OK, what: fmt.Sprintf("answers over UDP (%s), TCP and with EDNS 1232%s", best.words(), p.Large.largeWords())}
}

// bad completes the verdict of a nameserver that resolves no name. Others, if there are any, may.
func (s Snapshot) bad(p Probe, others bool, v verdict) verdict {
	v.level, v.fix = Fail, v.fix+p.orReplace()
	if others && !s.allBad(p) {
		v.level, v.fix = Warn, v.fix+"; other nameservers answer instead"
	}
	return v
}

// smallerAnswers returns the beginning of a fix that makes node-dns request answers of at most 512
// bytes. It is empty if node-dns already does. dnsmasq does not start if the option occurs twice,
// and the last line of its file may lack a newline.
func (s Snapshot) smallerAnswers() string {
	const option, size = "edns-packet-max", 512
	why := " makes node-dns request smaller answers and use TCP for larger ones; then "
	switch have := s.Host.Dnsmasq.Number(option); have {
	case size:
		return ""
	case dnsmasqconf.Unset:
		return fmt.Sprintf(`grep -qs '^%[1]s=' /etc/dnsmasq.conf || printf '\n%[1]s=%[2]d\n' >>/etc/dnsmasq.conf`, option, size) + why
	default:
		return fmt.Sprintf("%s=%d instead of %d in dnsmasq's files (grep -r %[1]s /etc/dnsmasq.conf /etc/dnsmasq.d)", option, size, have) + why
	}
}

// silent describes a nameserver that does not answer. The error decides what to check.
func (s Snapshot) silent(p Probe, others bool) verdict {
	err, over := p.EDNS.Err, "UDP"
	if p.TLS {
		err, over = p.TCP.Err, "TLS"
	}
	v := verdict{level: Fail, what: fmt.Sprintf("does not answer over %s: %v", over, err)}
	refused := !p.TLS && errors.Is(p.TCP.Err, unix.ECONNREFUSED)
	if refused && !errors.Is(err, unix.ECONNREFUSED) {
		v.what += "; TCP: connection refused"
	}
	var invalid x509.CertificateInvalidError
	var hostname x509.HostnameError
	var authority x509.UnknownAuthorityError
	switch {
	case !p.TLS && p.TCP.Err == nil:
		v.what += "; it answers over TCP: a firewall drops UDP"
		v.fix = "allow UDP port 53 to it in this node's firewall (nft list ruleset) and in those on the path"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		v.what = fmt.Sprintf("has a TLS certificate that is not valid now: from %s to %s", date(invalid.Cert.NotBefore), date(invalid.Cert.NotAfter))
		v.fix = "renew the certificate at that nameserver; if this node's clock is wrong, set it"
	case errors.As(err, &hostname):
		v.what = fmt.Sprintf("has a TLS certificate for %s, not for %s", orNone(strings.Join(certifiedNames(hostname.Certificate), ", ")), hostname.Host)
		v.fix = "renew the certificate at that nameserver, with the configured name"
		if p.Proven != "" { // anyone can create a certificate for any name
			v.fix = fmt.Sprintf("if that is the nameserver's own name, correct %s: dns+tls://%s#%s; otherwise %s", cmp.Or(p.Source, "its source"), hostsWord, p.Proven, v.fix)
		}
	case errors.As(err, &authority):
		v.what = "has a TLS certificate from a CA that this node does not trust"
		v.fix = "copy the CA certificate to /etc/pki/ca-trust/source/anchors/, run update-ca-trust, and systemctl restart node-dns"
	case errors.Is(err, unix.EPERM):
		v.what += ": a packet filter on this node drops the queries"
		v.fix = "nft -a list ruleset shows the rule: delete it, or accept port 53 before it"
		if commands := s.Host.Filter.Rules.AcceptOutput(p.port()); commands != "" {
			v.fix = commands + "; then remove the drop rule at its source (nft list ruleset), or it may return when the firewall restarts"
		}
	case refused, errors.Is(err, unix.ECONNREFUSED):
		v.what += ": the host is up, but no nameserver listens there"
		v.fix = "start the nameserver at " + hostsWord + p.orReplace()
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH):
		v.fix = "correct the route to " + hostsWord + ": ip route get ADDRESS shows it" + p.orReplace()
	default:
		v.fix = "check " + hostsWord + ", the route there (ip route get ADDRESS), and firewalls in between" + p.orReplace()
	}
	if others {
		v.level, v.fix = Warn, "other nameservers answer instead; "+v.fix
	}
	return v
}

// port returns the port on which the nameserver is queried.
func (p Probe) port() uint16 {
	if server, err := nameserver.Parse(p.Server); err == nil {
		return server.Addr.Port()
	}
	return 53
}

// orReplace returns the advice to configure another nameserver. "nmcli connection up" would take
// the link of a running node down.
func (p Probe) orReplace() string {
	switch path := pathIn(p.Source); {
	case path != "":
		return "; or configure another one in " + p.Source
	case strings.HasPrefix(p.Source, "NetworkManager"):
		return "; or give the connection another one: nmcli connection modify NAME ipv4.dns ADDRESS ipv4.ignore-auto-dns yes && nmcli device reapply DEVICE"
	}
	return "; or configure another one: node-dns servers shows its source"
}

// pathIn returns the file that a source names, or "".
func pathIn(source string) string {
	for word := range strings.FieldsSeq(source) {
		if strings.HasPrefix(word, "/") {
			return word
		}
	}
	return ""
}

func (a Answer) words() string {
	text := a.Took.Round(100 * time.Microsecond).String()
	if a.Rcode != "NOERROR" {
		text = a.Rcode + ", " + text
	}
	return text
}

// largeWords describes the result of a query with a large answer.
func (a Answer) largeWords() string {
	switch {
	case a.Truncated:
		return "; it truncates larger answers"
	case a.Size > 512:
		return fmt.Sprintf("; a large answer arrives complete (%d bytes)", a.Size)
	}
	return ""
}
