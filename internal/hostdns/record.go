package hostdns

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/upstream"
)

// recordStep writes the record where it is to say something else.
func recordStep(s State, selection upstream.Selection) (Step, bool) {
	record, changed := newRecord(s, selection)
	if !changed {
		return Step{}, false
	}
	return writeStep(s.Paths.Record, s.Record, record.Bytes())
}

// newRecord keeps what the record says of the same servers, its time too, which is that of their last change: from a
// weaker source they do not change where they came from, or two events in turn would write for ever. An empty selection keeps
// the last good servers.
func newRecord(s State, selection upstream.Selection) (record upstream.Record, changed bool) {
	old, err := s.record()
	forwarded := selection.Set.Servers
	if selection.Set.IsEmpty() {
		known := lastGood(s)
		selection = upstream.Selection{Set: known.Set, Origin: upstream.LastGood, Detail: known.From}
	}
	record = upstream.Record{
		Set: selection.Set, Origin: selection.Origin, Detail: selection.Detail,
		Event: strings.TrimSpace(s.Event.Interface + " " + s.Event.Action), Time: s.now(),
	}
	isKept := err == nil && old.Set.Equal(selection.Set) && !isNews(old, selection)
	if isKept {
		record = old
	}
	record.Pointed = old.PointedAt(s.givenOut(), forwarded)
	switch record.Lacking = lacking(s, record.Origin, old.Lacking); {
	case record.Lacking == "":
		record.Since = time.Time{}
	case old.Lacking != "":
		record.Since = old.Since
	default:
		record.Since = s.now()
	}
	return record, !isKept || !slices.Equal(old.Pointed, record.Pointed) || old.Lacking != record.Lacking
}

// isNews reports whether a selection of the same servers says more of where they came from.
func isNews(old upstream.Record, selection upstream.Selection) bool {
	was, is := strength(old.Origin), strength(selection.Origin)
	if is != was || selection.Origin == upstream.LastGood {
		return is < was
	}
	return old.Detail != selection.Detail || !slices.EqualFunc(old.Routes, selection.Set.Routes, func(a, b upstream.Route) bool { return a.Source == b.Source })
}

// pointsAt is the address that resolv.conf names from now on, if any; a faulty configuration may not say it right, and
// points no other file than ours.
func (s State) pointsAt() netip.Addr {
	if s.ConfigErr != nil && !s.isOurs() {
		return netip.Addr{}
	}
	return askedNameserver(s, s.Placement().Nameserver)
}

// givenOut are the addresses that resolv.conf and pods name from now on, resolv.conf's first; nil if it names none. A faulty
// configuration may not say what pods are given.
func (s State) givenOut() []netip.Addr {
	here := s.pointsAt()
	if !here.IsValid() {
		return nil
	}
	all := []netip.Addr{here}
	if s.ConfigErr != nil {
		return all
	}
	place := s.Placement()
	for _, at := range place.Listen {
		if at.Port() == nameserver.Port && !at.Addr().IsLoopback() && !slices.Contains(place.Spare, at) {
			all = append(all, at.Addr())
		}
	}
	return all
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
	record, _ := s.record() // empty when it cannot be read
	earlier := record.PointedAt(nil, lastGood(s).Set.Servers)
	return func(server nameserver.Server) string {
		reason := refused(server)
		if reason == "" && server.Addr.Port() == nameserver.Port && slices.Contains(earlier, server.Addr.Addr().WithZone("")) {
			return "an earlier address of this node"
		}
		return reason
	}
}
