package hostdns

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/nameserver"
	"github.com/node-dns/node-dns/internal/upstream"
)

// maxReasons bounds how many refused nameservers lacking names.
const maxReasons = 3

// lacking says why last-good serves although NetworkManager runs and should offer upstreams, or "". A node that NetworkManager has not
// connected yet, or that an admin's servers serve, lacks nothing; nor does one without NetworkManager. Where NetworkManager names
// nobody, servers of an admin's file are all right. captured is where the record has its servers from, which does not
// change with whose resolv.conf it is for the moment.
func lacking(s State, captured upstream.Origin) string {
	if s.NetworkManager == nil || len(s.Config.Upstreams)+len(s.Config.DNSNameservers) > 0 ||
		len(defaultInterfaces(s)) == 0 && !strings.HasPrefix(s.NetworkManager.State, "connected") {
		return ""
	}
	said := fromNetworkManager(s)
	selection := choose(s, said)
	isSilent := len(said.Set.Servers)+len(said.Invalid) == 0 || s.NetworkManager.Mode == "none"
	if !selection.Set.IsEmpty() || isSilent && (captured == upstream.ResolvConf || captured == upstream.Resolved || captured == upstream.NetworkManagerFile) {
		return ""
	}
	var reasons []string
	for _, r := range selection.Refused[:min(len(selection.Refused), maxReasons)] {
		reasons = append(reasons, r.From()+" names "+r.Text+": "+r.Reason)
	}
	return cmp.Or(strings.Join(reasons, "; "), "NetworkManager names no nameserver")
}

// lackingSentence is what an admin is told of it, or "".
func lackingSentence(r upstream.Record) string {
	if r.Lacking == "" {
		return ""
	}
	return fmt.Sprintf("the network offers no usable nameserver since %s (%s): the last good ones are asked: %s",
		r.Since.UTC().Format(time.RFC3339), r.Lacking, nameserver.Join(r.Servers))
}

// IsLacking reports whether a run has recorded that the network offers no usable upstream: Plan.Lacking is of that time then.
func (s State) IsLacking() bool {
	record, err := upstream.ParseRecord(s.Record.Data)
	return err == nil && record.Lacking != ""
}
