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

// quick is a limit: if the daemon answers a name within it, clients must get an answer too. A
// client's query for a slower name may time out.
const quick = time.Second

// checkAnswers compares the answers that pods and this host get from node-dns with those that the
// daemon gives over its control socket. checkClients reports clients that get no answer at all.
func (s Snapshot) checkAnswers() []Finding {
	var details []string
	isLost, isSilent, name := false, false, ""
	for _, p := range append(slices.Clone(s.Pods), s.FromHost) {
		if p.failure() != "" || p.UDP.Rcode == "REFUSED" || p.TCP.Rcode == "REFUSED" {
			continue
		}
		for _, a := range p.Names {
			want := s.wantFor(a)
			odd := a.differences(want)
			if len(odd) == 0 {
				continue
			}
			who := "this host"
			if p.Client.IsValid() {
				who = p.Client.String() + " in " + p.Namespace
			}
			details = append(details, fmt.Sprintf("%s %s, queried from %s: %s; node-dns has %s", a.Name, a.Type, who, a.words(), want))
			isLost = isLost || slices.Contains(odd, "UDP") && slices.Contains(odd, "TCP")
			isSilent = isSilent || slices.ContainsFunc(a.ways(), func(w way) bool { return w.answer.Err != nil })
			if name == "" {
				name = a.Name
			}
		}
	}
	if len(details) == 0 {
		return nil
	}
	level, fix := warn, "node-dns monitor --name "+termtext.Quote(name)+" shows what clients get, and why"
	if isSilent {
		fix = "allow UDP and TCP port 53, datagrams of 1232 bytes and fragments between these clients and this node: in its firewall (nft list ruleset), in the pods and in network policies"
	}
	if isLost {
		level = fail
	}
	return []Finding{level("clients do not get every answer that node-dns has", fix, details...)}
}

// wantFor returns the daemon's own result for a name, or "" if it is not known or clients may get
// another one.
func (s *Snapshot) wantFor(a Asked) string {
	i := slices.IndexFunc(s.Names, func(n Name) bool { return n.Name == a.Name && n.Type == a.Type })
	if i < 0 || !s.isComparable(s.Names[i]) {
		return ""
	}
	return s.Names[i].result()
}

// isComparable reports whether clients must get the daemon's own answer: it came quickly, and does
// not depend on the client. For a name of the cluster that does not exist, node-dns may continue
// through a pod's search list.
func (s *Snapshot) isComparable(n Name) bool {
	result := n.result()
	isWalked := result == "NXDOMAIN" && s.Status != nil && dns.IsSubDomain(s.Status.Cluster.Domain, n.Name)
	return n.Err == nil && isAnswer(result) && n.Answer.Took < quick && !isWalked
}

// differences returns the ways in which the client did not get the result. A client repeats a
// truncated answer over TCP.
func (a Asked) differences(want string) []string {
	var odd []string
	for _, w := range a.ways() {
		switch result := w.answer.result(); {
		case want == "", result == "", result == want, result == "truncated", w.answer.isLimited():
		default:
			odd = append(odd, w.name)
		}
	}
	return odd
}

// isLimited reports whether node-dns refused the query at one of a client's limits, which doctor's
// own queries may reach.
func (a Answer) isLimited() bool {
	return slices.ContainsFunc(a.EDE, func(e control.ExtendedError) bool {
		return e.Code == dns.ExtendedErrorCodeOther && strings.HasPrefix(e.Text, "too many ")
	})
}
