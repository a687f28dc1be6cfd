package hostdns

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/upstream"
)

// maxReasons bounds how many refused nameservers lacking lists.
const maxReasons = 3

// lacking says why node-dns uses the last good upstreams although NetworkManager runs and should
// offer some, or "". It returns "" without NetworkManager, while NetworkManager has no connection
// yet, and with an admin's upstreams. If NetworkManager names no server, servers from an admin's
// file are fine. captured is the source of the record's servers, which stays the same while
// resolv.conf is ours. before is the record's present reason.
func lacking(s *State, captured upstream.Origin, before string) string {
	if len(s.Config.Upstreams)+len(s.Config.DNSNameservers) > 0 {
		return ""
	}
	if captured == upstream.ResolvConf && (s.NetworkManager == nil || s.leavesFile() || len(fromNetworkManager(s).Set.Servers) == 0) {
		return lackingFile(s, before)
	}
	if s.NetworkManager == nil ||
		len(defaultInterfaces(s)) == 0 && !strings.HasPrefix(s.NetworkManager.State, "connected") {
		return ""
	}
	said := fromNetworkManager(s)
	selection := choose(s, said)
	isSilent := len(said.Set.Servers)+len(said.Invalid) == 0 || s.NetworkManager.Mode == "none"
	if !selection.Set.IsEmpty() || isSilent && (captured == upstream.ResolvConf || captured == upstream.Resolved || captured == upstream.NetworkManagerFile) {
		return ""
	}
	return cmp.Or(reasons(selection), "NetworkManager lists no nameserver")
}

func reasons(selection upstream.Selection) string {
	var reasons []string
	for _, r := range selection.Refused[:min(len(selection.Refused), maxReasons)] {
		reasons = append(reasons, r.From()+" names "+r.Text+": "+r.Reason)
	}
	return strings.Join(reasons, "; ")
}

// lackingFile says why node-dns does not follow the admin's resolv.conf, which names only invalid
// and refused servers, or "". Our file replaces it at once, so the reason stays until someone
// writes a file with a usable server. A file that names this node is a copy of ours.
func lackingFile(s *State, before string) string {
	if !isOfFile(before) {
		before = ""
	}
	file := s.ResolvConf
	if s.isOurs() {
		file, _ = s.edited()
	}
	if !s.isAdmins(file) {
		return before
	}
	refused := refuseCopies(s)
	said := fromResolvConf(upstream.ResolvConf, file.Data)
	isCopy := slices.ContainsFunc(said.Set.Servers, func(server nameserver.Server) bool { return refused(server) != "" })
	selection := choose(s, said)
	switch {
	case !selection.Set.IsEmpty():
		return ""
	case isCopy:
		return before
	}
	return cmp.Or(reasons(selection), before)
}

// isOfFile reports whether lackingFile gave this reason.
func isOfFile(reason string) bool { return strings.HasPrefix(reason, string(upstream.ResolvConf)+" ") }

// lackingSentence is the warning for an admin, or "".
func lackingSentence(r upstream.Record) string {
	if r.Lacking == "" {
		return ""
	}
	who := "the network offers"
	if isOfFile(r.Lacking) {
		who = string(upstream.ResolvConf) + " names"
	}
	return fmt.Sprintf("%s no usable nameserver since %s (%s); using the last good ones: %s", who,
		r.Since.UTC().Format(time.RFC3339), r.Lacking, nameserver.Join(r.Servers))
}

// IsLacking reports whether the record says that the network offers no usable upstream.
// Plan.Lacking then includes since when.
func (s *State) IsLacking() bool {
	record, err := s.record()
	return err == nil && record.Lacking != ""
}
