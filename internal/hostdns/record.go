package hostdns

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/nameserver"
	"github.com/node-dns/node-dns/internal/upstream"
)

// recordStep keeps what the record says of the same servers, its time too, which is that of their last change: from a
// weaker source they do not change where they came from, or two events in turn would write for ever.
func recordStep(s State, selection upstream.Selection) (Step, bool) {
	old, err := upstream.ParseRecord(s.Record.Data)
	record := upstream.Record{
		Set: selection.Set, Origin: selection.Origin, Detail: selection.Detail,
		Event: strings.TrimSpace(s.Event.Interface + " " + s.Event.Action), Time: s.now(),
	}
	pointed := old.PointedAt(s.pointsAt(), selection.Set.Servers)
	if err == nil && old.Set.Equal(selection.Set) && !isNews(old, selection) {
		if slices.Equal(old.Pointed, pointed) {
			return Step{}, false
		}
		record = old
	}
	record.Pointed = pointed
	return writeStep(s.Paths.Record, s.Record, record.Bytes())
}

// isNews reports whether a selection of the same servers says more of where they came from.
func isNews(old upstream.Record, selection upstream.Selection) bool {
	was, is := strength(old.Origin), strength(selection.Origin)
	return is < was || is == was && old.Detail != selection.Detail && selection.Origin != upstream.LastGood
}

// pointsAt is the address that resolv.conf names from now on, if any; a faulty configuration may not say it right, and
// points no other file than ours.
func (s State) pointsAt() netip.Addr {
	if s.ConfigErr != nil && !s.isOurs() {
		return netip.Addr{}
	}
	return askedNameserver(s, s.Placement().Nameserver)
}

// strength orders the sources as law 1 does, the strongest first.
func strength(origin upstream.Origin) int {
	order := []upstream.Origin{
		upstream.NetworkManager, upstream.NetworkManagerFile, upstream.Event, upstream.Resolved, upstream.ResolvConf,
	}
	if i := slices.Index(order, origin); i >= 0 {
		return i
	}
	return len(order)
}

// refuseCopies is refuse for what is said by nobody but a file: it may be a copy of a resolv.conf of ours, made when this
// node had another address. NetworkManager and DHCP may give that to a nameserver, and what was taken from them stays good.
func refuseCopies(s State) func(nameserver.Server) string {
	refused := refuse(s)
	record, _ := upstream.ParseRecord(s.Record.Data) // empty when it cannot be read
	earlier := record.PointedAt(netip.Addr{}, lastGood(s).Set.Servers)
	return func(server nameserver.Server) string {
		reason := refused(server)
		if reason == "" && server.Addr.Port() == nameserver.Port && slices.Contains(earlier, server.Addr.Addr().WithZone("")) {
			return "an earlier address of this node"
		}
		return reason
	}
}
