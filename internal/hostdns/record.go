package hostdns

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/upstream"
)

// recordSteps write the record if its content changes.
func recordSteps(s *State, selection upstream.Selection) []Step {
	record, changed := newRecord(s, selection)
	if !changed {
		return nil
	}
	return writeSteps(s.Paths.Record, s.Record, record.Bytes())
}

// newRecord keeps the record of the same servers, including its time, which is that of their last
// change. It also keeps their source if the new one is weaker: otherwise two alternating events
// would rewrite the record forever. An empty selection keeps the last good servers.
func newRecord(s *State, selection upstream.Selection) (record upstream.Record, changed bool) {
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
	isKept := err == nil && old.Set.Equal(selection.Set) && !hasNewSource(old, selection)
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

// hasNewSource reports whether a selection of the same servers says more about their source.
func hasNewSource(old upstream.Record, selection upstream.Selection) bool {
	was, is := strength(old.Origin), strength(selection.Origin)
	if is != was || selection.Origin == upstream.LastGood {
		return is < was
	}
	return old.Detail != selection.Detail || !slices.EqualFunc(old.Routes, selection.Set.Routes, func(a, b upstream.Route) bool { return a.Source == b.Source })
}

// pointsAt is the address that resolv.conf will name, if any. An invalid configuration may give a
// wrong address, so it changes only a file that is already ours.
func (s *State) pointsAt() netip.Addr {
	if s.ConfigErr != nil && !s.isOurs() {
		return netip.Addr{}
	}
	return askedNameserver(s, s.Placement().Nameserver)
}

// givenOut returns the addresses that resolv.conf and pods will use, resolv.conf's first; nil if
// there is none. An invalid configuration may give pods a wrong address.
func (s *State) givenOut() []netip.Addr {
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

// strength ranks the sources, strongest first.
func strength(origin upstream.Origin) int {
	order := []upstream.Origin{
		upstream.NetworkManager, upstream.NetworkManagerFile, upstream.Event, upstream.Resolved, upstream.ResolvConf,
	}
	if i := slices.Index(order, origin); i >= 0 {
		return i
	}
	return len(order)
}

// refuseCopies is refuse for servers that only a file names. The file may be a copy of our
// resolv.conf from when this node had another address. NetworkManager and DHCP may assign that
// address to a real nameserver, so servers captured from them remain valid.
func refuseCopies(s *State) func(nameserver.Server) string {
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

// known is the parsed record and upstream file. A plan needs them a dozen times, and parsing them
// took a tenth of the hook's processor time. It is immutable.
type known struct {
	recordData, upstreamsData []byte // the files' content

	record    upstream.Record
	recordErr error // why the record cannot be read; nil if it can
	captured  Capture
}

func newKnown(upstreams, record File) *known {
	k := &known{recordData: record.Data, upstreamsData: upstreams.Data}
	k.record, k.recordErr = upstream.ParseRecord(record.Data)
	k.captured = captured(upstreams, k.record, k.recordErr)
	return k
}

// known parses the two files, or returns the cached result of Look.
func (s *State) known() *known {
	if k := s.parsed; k != nil && bytes.Equal(k.recordData, s.Record.Data) && bytes.Equal(k.upstreamsData, s.Upstreams.Data) {
		return k
	}
	return newKnown(s.Upstreams, s.Record)
}

// record returns the parsed record, or an error if it cannot be read.
func (s *State) record() (upstream.Record, error) {
	k := s.known()
	return k.record, k.recordErr
}
