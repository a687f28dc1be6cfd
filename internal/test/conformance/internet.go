package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// Internet returns a handler that answers like the resolver that the peers forwarded to. It knows
// only dir's example.test.zone.
func Internet(dir string) (dnsserver.Handler, error) {
	i := &internet{records: map[string][]dns.RR{}}
	if err := i.read(filepath.Join(dir, "example.test.zone")); err != nil {
		return nil, err
	}
	return i, nil
}

// internet is immutable.
type internet struct {
	soa, ns, root dns.RR
	records       map[string][]dns.RR
}

func (i *internet) read(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	parser := dns.NewZoneParser(file, "", "")
	for rr, ok := parser.Next(); ok; rr, ok = parser.Next() {
		switch rr.Header().Rrtype {
		case dns.TypeSOA:
			i.soa = rr
		case dns.TypeNS:
			i.ns = rr
		}
		i.records[rr.Header().Name] = append(i.records[rr.Header().Name], rr)
	}
	if err := parser.Err(); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	if i.soa == nil || i.ns == nil {
		return fmt.Errorf("reading %s: no SOA or no NS record", name)
	}
	i.root, err = dns.NewRR(". 900 IN SOA root.invalid. nobody.invalid. 0 7200 1800 86400 900")
	return err
}

// ServeDNS implements dnsserver.Handler.
func (i *internet) ServeDNS(_ context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	question := q.Msg.Question[0]
	m := new(dns.Msg).SetReply(q.Msg)
	m.RecursionAvailable = true
	name := i.follow(m, dns.CanonicalName(question.Name), question.Qtype)
	switch {
	case !dns.IsSubDomain(i.soa.Header().Name, name):
		m.Rcode, m.Ns = dns.RcodeNameError, []dns.RR{i.root}
	case len(m.Answer) > 0:
		m.Ns = []dns.RR{i.ns}
	case i.records[name] == nil:
		m.Rcode, m.Ns = dns.RcodeNameError, []dns.RR{i.soa}
	default:
		m.Ns = []dns.RR{i.soa}
	}
	return m, nil
}

// follow adds the records of a name and type to the answer, following CNAME records. It returns the
// last name.
func (i *internet) follow(m *dns.Msg, name string, qtype uint16) string {
	for range 3 {
		next := ""
		for _, rr := range i.records[name] {
			cname, isCNAME := rr.(*dns.CNAME)
			if isCNAME {
				next = cname.Target
			}
			if isCNAME || rr.Header().Rrtype == qtype {
				m.Answer = append(m.Answer, rr)
			}
		}
		if next == "" {
			break
		}
		name = next
	}
	return name
}
