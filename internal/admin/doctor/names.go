package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// checkStale finds names that do not exist according to the cache, although every nameserver for
// them has them.
func checkStale(s Snapshot) []Finding {
	var found []Finding
	for _, n := range s.Names {
		if n.isStale() {
			what := fmt.Sprintf("%s %s is %s in the cache (age %s), but every nameserver for it has the name", n.Name, n.Type, n.result(), n.Answer.By.Age.Round(time.Second))
			found = append(found, fail(what, "node-dns cache flush "+termtext.Quote(n.Name), n.lines()...))
		}
	}
	return found
}

func (n Name) isStale() bool {
	absent := func(result string) bool { return result == "NXDOMAIN" || result == "NODATA" }
	return n.Answer.By.Cached && !n.isFiltered() && absent(n.result()) && len(n.Direct) > 0 &&
		!slices.ContainsFunc(n.Direct, func(d Direct) bool { return d.best().result() != "NOERROR" })
}

// isFiltered reports whether node-dns removed records on purpose: filter-A and filter-AAAA (EDE
// 17), bogus-nxdomain and stop-dns-rebind (EDE 15). Answers from rules or local data are never
// cached.
func (n Name) isFiltered() bool {
	return slices.ContainsFunc(n.Answer.Errors, func(e control.ExtendedError) bool {
		return e.Code == dns.ExtendedErrorCodeFiltered || e.Code == dns.ExtendedErrorCodeBlocked
	})
}

// isIgnored reports whether node-dns dropped the nameservers' answers because of ignore-address.
// Only the text of the error shows that.
func (n Name) isIgnored() bool {
	return slices.ContainsFunc(n.Answer.Errors, func(e control.ExtendedError) bool { return strings.Contains(e.Text, "(ignore-address)") })
}

// result returns the daemon's answer as one word.
func (n Name) result() string {
	switch {
	case n.Err != nil:
		return n.Err.Error()
	case n.Answer.Rcode == "NOERROR" && len(n.Answer.Answer) == 0:
		return "NODATA"
	}
	return n.Answer.Rcode
}

// lines returns the answers of each nameserver.
func (n Name) lines() []string {
	var all []string
	for _, d := range n.Direct {
		all = append(all, d.words())
	}
	return all
}

// checkNames checks the daemon's answers to real queries. As a symptom, it runs after the checks
// that explain failures.
func checkNames(s Snapshot) []Finding {
	var found []Finding
	answered := 0
	failing := map[Level][]Finding{} // excluding the admin's name
	for _, n := range s.Names {
		f, ok := s.judgeName(n)
		switch {
		case ok && n.result() == "SERVFAIL" && !n.Given:
			failing[f.Level] = append(failing[f.Level], f)
		case ok:
			found = append(found, f)
		case isAnswer(n.result()):
			answered++
		}
	}
	if len(s.Names) == 0 {
		return nil
	}
	found = append(found, s.checkAnswers()...)
	for _, level := range []Level{Fail, Warn} {
		found = append(found, inOne(failing[level])...)
	}
	return orFine(found, "node-dns answers %d of %s like the nameservers", answered, count(len(s.Names), "name"))
}

// inOne combines findings about names that fail alike.
func inOne(all []Finding) []Finding {
	if len(all) < 2 {
		return all
	}
	f := Finding{Level: all[0].Level, What: count(len(all), "name") + " fail to resolve through node-dns", Fix: all[0].Fix}
	for _, one := range all {
		f.Details = append(append(f.Details, one.What), one.Details...)
	}
	return []Finding{f}
}

// judgeName reports the problem with an answer. It returns false if there is none or if another
// check reports it.
func (s Snapshot) judgeName(n Name) (Finding, bool) {
	what := fmt.Sprintf("%s %s (%s): %s", n.Name, n.Type, n.Why, n.result())
	if text := reasons(n.Answer.Errors); text != "" {
		what += " (" + text + ")"
	}
	details, name := n.lines(), termtext.Quote(n.Name)
	if by := n.Answer.By; by.Server != "" {
		details = append(details, "node-dns got it from "+by.Server)
	}
	switch {
	case n.isStale() || n.Cluster: // checkStale and checkCluster report these
		return Finding{}, false
	case n.Err != nil:
		return fail(what, "journalctl -u node-dns shows what the daemon does", details...), true
	case n.result() == "SERVFAIL" && n.isIgnored():
		return warn(what, "node-dns ignores the answer as configured; if that is wrong, remove ignore-address from dnsmasq's files", details...), true
	case n.result() == "SERVFAIL" && slices.ContainsFunc(n.Direct, func(d Direct) bool { return isAnswer(d.best().result()) }):
		return fail(what+", although a nameserver answers it", "node-dns cache flush "+name+"; if it fails again, node-dns monitor --name "+name+" shows why", details...), true
	case n.result() == "SERVFAIL" && n.Given && !n.isRefused():
		return fail(what, "node-dns servers shows its nameservers", details...), true
	case n.result() == "SERVFAIL" && n.Why == failedRecently && !n.isRefused(): // usually the domain's own nameservers are at fault
		return warn(what, "if other names resolve, the nameservers of this domain are at fault; node-dns servers shows them", details...), true
	case n.disagrees():
		return warn(fmt.Sprintf("the nameservers disagree about %s %s", n.Name, n.Type), "if they serve different networks, assign domains to each: routes: in "+nodeDNSYAML, details...), true
	case n.Given:
		return Finding{Level: OK, What: what, Details: append(details, records(n.Answer)...)}, true
	}
	return Finding{}, false
}

func isAnswer(result string) bool {
	return result == "NOERROR" || result == "NODATA" || result == "NXDOMAIN"
}

// isRefused reports whether every nameserver refuses to answer. checkUpstreams warns about that.
func (n Name) isRefused() bool {
	return len(n.Direct) > 0 && !slices.ContainsFunc(n.Direct, func(d Direct) bool { return d.best().Rcode != "REFUSED" })
}

// disagrees reports whether one nameserver has the name and another does not.
func (n Name) disagrees() bool {
	has := func(result string) bool {
		return slices.ContainsFunc(n.Direct, func(d Direct) bool { return d.best().result() == result })
	}
	return has("NOERROR") && has("NXDOMAIN")
}

// reasons returns the Extended DNS Errors of an answer as text.
func reasons(all []control.ExtendedError) string {
	var words []string
	for _, e := range all {
		word := e.Name
		if e.Text != "" {
			word += ": " + e.Text
		}
		words = append(words, word)
	}
	return strings.Join(words, "; ")
}

func records(a control.Answer) []string {
	var all []string
	for _, r := range a.Answer {
		all = append(all, strings.Join([]string{r.Name, fmt.Sprint(r.TTL), r.Class, r.Type, r.Data}, " "))
	}
	return all
}
