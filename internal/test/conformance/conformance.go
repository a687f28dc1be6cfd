// Package conformance has the answers of SkyDNS, CoreDNS and the tests of Kubernetes and OpenShift
// to about two hundred questions about a cluster, and our intentional deviations.
//
// It is only for tests. It is a package of its own because two tests use it: those of
// internal/dns/zone ask a Snapshot, and those of test/e2e ask a daemon that reads its objects from
// a real API.
package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// Case is one question with the answer of a peer, or of the peer's own test.
type Case struct {
	ID, Suite, Fixture, Profile, Kind string
	Q                                 struct{ Name, Type string } // the name is fully qualified
	Expect                            struct {
		Rcode                         string
		Answer, Additional, Authority []string
		TTLIgnored                    bool `json:"ttl_ignored"`
		Nonempty                      bool // the answer must not be empty; nothing else is compared
	}
}

// Read reads the cases with one query and one response from dir's cluster-dns.json.
func Read(dir string) ([]Case, error) {
	text, err := os.ReadFile(filepath.Join(dir, "cluster-dns.json"))
	if err != nil {
		return nil, err
	}
	var all []Case
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("reading cases: %w", err)
	}
	all = slices.DeleteFunc(all, func(c Case) bool { return c.Kind != "direct" })
	for i := range all {
		all[i].Q.Name = dns.Fqdn(all[i].Q.Name)
	}
	return all, nil
}

// Judge returns what is wrong with a response, or "" if it is the peer's answer or our intentional
// deviation.
func (c *Case) Judge(got *dns.Msg) string {
	diff := c.Diff(got)
	ours, deviates := deviations[c.ID]
	switch {
	case !deviates:
		return diff
	case diff == "":
		return "listed as a deviation, but is not one"
	case Gist(got) != ours.answer:
		return fmt.Sprintf("got %s, want %s, because %s", Gist(got), ours.answer, ours.why)
	}
	return ""
}

// Deviation returns why our answer differs from the peer's, or false if it does not.
func (c *Case) Deviation() (why string, ok bool) {
	d, ok := deviations[c.ID]
	return d.why, ok
}

// answersAlone reports whether the sources of the suite check only the answer section.
func answersAlone(suite string) bool {
	return suite == "openshift-3.11-e2e" || suite == "kubernetes-e2e"
}

// Diff returns the differences between a response and the peer's, or "". It ignores TTLs if the
// case says so, the serial number of SOA records, and their other numbers if the peer's own test
// does not check them.
func (c *Case) Diff(got *dns.Msg) string {
	if c.Expect.Nonempty {
		if got.Rcode != dns.StringToRcode[c.Expect.Rcode] || len(got.Answer) == 0 {
			return got.String()
		}
		return ""
	}
	got = got.Copy()
	anySOA := c.Suite == "coredns-plugin-kubernetes"
	for _, section := range [][]dns.RR{got.Answer, got.Ns} {
		for _, rr := range section {
			normalize(rr, anySOA)
		}
	}
	if answersAlone(c.Suite) {
		got.Ns, got.Extra = nil, nil
	}
	want := []string{";; " + c.Expect.Rcode}
	for _, section := range []struct {
		name string
		rrs  []string
	}{{"ANSWER", c.Expect.Answer}, {"AUTHORITY", c.Expect.Authority}, {"ADDITIONAL", c.Expect.Additional}} {
		want = append(want, ";; "+section.name)
		for _, text := range section.rrs {
			rr, err := c.wanted(text, anySOA)
			if err != nil {
				return err.Error()
			}
			want = append(want, rr)
		}
	}
	return dnstest.Diff(strings.Join(want, "\n"), got)
}

func (c *Case) wanted(text string, anySOA bool) (string, error) {
	rr, err := dns.NewRR(text)
	if err != nil {
		return "", fmt.Errorf("reading %q of %s: %w", text, c.ID, err)
	}
	normalize(rr, anySOA)
	fields := strings.Fields(rr.String())
	if ttl := rr.Header().Ttl; c.Expect.TTLIgnored || ttl == 300 && anySOA {
		fields[1] = "*"
	}
	return strings.Join(fields, " "), nil
}

func normalize(rr dns.RR, anySOA bool) {
	if soa, ok := rr.(*dns.SOA); ok {
		soa.Serial = 0
		if anySOA {
			soa.Refresh, soa.Retry, soa.Expire, soa.Minttl = 0, 0, 0, 0
		}
	}
}

// Gist summarizes a response: the rcode, the types and data of the answer records in alphabetical
// order, and the codes of extended errors, such as "NOERROR A 192.0.2.1 A 192.0.2.2" or "SERVFAIL
// ede 14".
func Gist(m *dns.Msg) string {
	var records []string
	for _, rr := range m.Answer {
		data := strings.TrimPrefix(rr.String(), rr.Header().String())
		records = append(records, dns.Type(rr.Header().Rrtype).String()+" "+data)
	}
	slices.Sort(records)
	words := append([]string{dns.RcodeToString[m.Rcode]}, records...)
	if opt := m.IsEdns0(); opt != nil {
		for _, option := range opt.Option {
			if ede, ok := option.(*dns.EDNS0_EDE); ok {
				words = append(words, fmt.Sprintf("ede %d", ede.InfoCode))
			}
		}
	}
	return strings.Join(words, " ")
}
