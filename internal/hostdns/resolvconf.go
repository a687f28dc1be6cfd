package hostdns

import (
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/resolvconf"
)

// pointHere are the steps that make resolv.conf name this node alone, the displaced file saved before.
func pointHere(s State, nameserver netip.Addr) []Step {
	text := localResolvConf(s, nameserver)
	step, ok := writeStep(s.Paths.ResolvConf, s.ResolvConf, text)
	if !ok {
		return nil
	}
	if save, ok := saveStep(s); ok {
		return []Step{save, step}
	}
	return []Step{step}
}

// keepHere names this node alone in a resolv.conf that is ours, and changes nothing else in it. Without the kernel's
// addresses there is nothing to be kept right.
func keepHere(s State, nameserver netip.Addr) []Step {
	if !s.isOurs() || s.NetErr != nil || !nameserver.IsValid() {
		return nil
	}
	file := resolvconf.Parse(s.ResolvConf.Data)
	file.SetNameservers([]netip.Addr{nameserver})
	if step, ok := writeStep(s.Paths.ResolvConf, s.ResolvConf, file.Bytes()); ok {
		return []Step{step}
	}
	return nil
}

// resolvedComment marks the comment of systemd-resolved's own resolv.conf, which says "Do not edit".
const resolvedComment = "managed by man:systemd-resolved(8)"

// localResolvConf is the resolv.conf of a node whose local nameserver answers. It keeps every line of the host's file (law 6)
// except the nameservers, the search list, and systemd-resolved's comment, which would claim our file. The saved original keeps that.
func localResolvConf(s State, nameserver netip.Addr) []byte {
	file := resolvconf.Parse(s.base().Data)
	file.RemoveComment(resolvedComment)
	if !s.isOurs() {
		file.PrependLine(Watermark)
	}
	file.SetSearch(searchList(s))
	file.SetNameservers([]netip.Addr{nameserver})
	return file.Bytes()
}

// base is the file that ours is made of: the one that stands there, or the saved original if that one was emptied.
func (s *State) base() File {
	if s.isEmptied() {
		return s.Original
	}
	return s.ResolvConf
}

// isEmptied reports whether resolv.conf is not ours and names no usable nameserver, while the saved original does.
// NetworkManager writes such a file when no connection of its own has a nameserver, for example on a host whose interfaces it
// does not manage. The original still holds then (law 2).
func (s *State) isEmptied() bool {
	refused := refuseCopies(*s)
	return s.ResolvConf.Err == nil && !s.isOurs() && s.hasOriginal() && !usable(refused, s.ResolvConf.Data) && usable(refused, s.Original.Data)
}

// saveStep saves the resolv.conf that is about to be displaced, never one of ours. A later file replaces the saved one
// only if isNewer. A link is saved as a link, so that it can be put back as one. A file that not everyone could read is
// saved as one that everyone can: the daemon looks at it, and libc had no use for it (the script's bug B13).
func saveStep(s State) (Step, bool) {
	if !s.ResolvConf.Exists || s.isOurs() || s.Original.Exists && !s.isNewer() {
		return Step{}, false
	}
	if s.ResolvConf.Link != "" {
		return Step{Path: s.Paths.Original, Action: MakeLink, Target: s.ResolvConf.Link, Before: s.Original}, true
	}
	return Step{Path: s.Paths.Original, Action: WriteFile, Data: s.ResolvConf.Data, Mode: readable(s.ResolvConf.Mode), Before: s.Original}, true
}

// keepsOriginal reports whether the saved original stays, whatever stands there.
func (s State) keepsOriginal() bool {
	_, saves := saveStep(s)
	return s.Original.Exists && !saves
}

// isNewer reports whether the resolv.conf that stands in place of ours replaces the saved original: somebody has written
// it since, whoever that is. A file without a usable nameserver never does (law 2), which covers copies of ours. A file does
// not replace a link that leads to nameservers: the program that made the link writes there. Nor does it replace
// NetworkManager's own file, whose present list is known, unless NetworkManager leaves the writing to resolvconf(8): openresolv puts
// back a file of NetworkManager's from before its own time while it has no nameserver.
func (s State) isNewer() bool {
	refused := refuseCopies(s)
	switch {
	case !usable(refused, s.ResolvConf.Data):
		return false
	case s.ResolvConf.Link != "":
		return s.ResolvConf.Link != s.Original.Link
	case s.Original.Link != "":
		return !usable(refused, s.Original.Data)
	}
	return s.NetworkManager == nil || s.NetworkManager.RcManager == "resolvconf" || !fromNetworkManagerFile(s)
}

// edited returns the resolv.conf that an edit of ours asks for. If the edit changed the nameservers, that is the file without our
// line and without the cluster domain. If it changed the search list or the options, that is the saved original with these.
// It reports false if the file is as we wrote it in this boot: a tool that adds a nameserver of its own is overwritten.
func (s *State) edited() (File, bool) {
	history := parseRewrites(s.Rewrites.Data).Files[s.Paths.host(s.Paths.ResolvConf)]
	if !s.isOurs() || s.ResolvConf.Link != "" || s.NetErr != nil || s.ConfigErr != nil || !history.isOver(s.ResolvConf) {
		return File{}, false
	}
	refused, file := refuseCopies(*s), resolvconf.Parse(s.ResolvConf.Data)
	for _, addr := range file.Nameservers() {
		if refused(nameserver.FromAddr(addr)) != "" {
			return s.editedOriginal(file)
		}
	}
	f := s.ResolvConf
	f.Data = unmarked(*s, file).Bytes()
	return f, usable(refused, f.Data)
}

// editedOriginal is the saved original with the search list and the options that now stand in ours, if these are others. It is
// for an admin's file: NetworkManager, and who made a link, say themselves what is searched. Where the host itself
// searched the cluster domain, that cannot be told from ours.
func (s *State) editedOriginal(now *resolvconf.File) (File, bool) {
	if !s.hasOriginal() || s.Original.Link != "" || !usable(refuseCopies(*s), s.Original.Data) || s.networkManagerWritesSearch() || s.hadClusterDomain() {
		return File{}, false
	}
	file := resolvconf.Parse(s.Original.Data)
	search := hostDomains(*s, now.Search())
	if slices.Equal(search, hostDomains(*s, file.Search())) && slices.Equal(now.Options(), file.Options()) {
		return File{}, false
	}
	file.SetSearch(search)
	file.SetOptions(now.Options())
	f := s.Original
	f.Data = file.Bytes()
	return f, true
}

// unmarked is file without our line and the cluster domain.
func unmarked(s State, file *resolvconf.File) *resolvconf.File {
	file.RemoveLine(Watermark)
	file.RemoveLine(LegacyWatermark)
	file.SetSearch(hostDomains(s, file.Search()))
	return file
}
