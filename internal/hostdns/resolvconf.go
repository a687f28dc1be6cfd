package hostdns

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/resolvconf"
)

// pointHere returns the steps that save the current resolv.conf and make it name only this node.
func pointHere(s *State, nameserver netip.Addr) []Step {
	steps := writeSteps(s.Paths.ResolvConf, s.ResolvConf, localResolvConf(s, nameserver))
	if len(steps) > 0 && s.savesOriginal() {
		return append([]Step{saveStep(s)}, steps...)
	}
	return steps
}

// keepHere makes a resolv.conf that is ours name this node alone, and changes nothing else in it.
// Without the kernel's addresses it does nothing.
func keepHere(s *State, nameserver netip.Addr) []Step {
	if !s.isOurs() || s.NetErr != nil || !nameserver.IsValid() {
		return nil
	}
	file := resolvconf.Parse(s.ResolvConf.Data)
	file.SetNameservers([]netip.Addr{nameserver})
	return writeSteps(s.Paths.ResolvConf, s.ResolvConf, file.Bytes())
}

// resolvedComment marks the comment of systemd-resolved's own resolv.conf, which says "Do not
// edit".
const resolvedComment = "managed by man:systemd-resolved(8)"

// localResolvConf returns the resolv.conf of a node whose local nameserver answers. It keeps every
// line of the host's file except the nameservers, the search list, and systemd-resolved's comment,
// which would be wrong in our file. The saved original keeps that comment.
func localResolvConf(s *State, nameserver netip.Addr) []byte {
	file := resolvconf.Parse(s.base().Data)
	file.RemoveComment(resolvedComment)
	if !s.isOurs() {
		file.PrependLine(Watermark)
	}
	file.SetSearch(searchList(s))
	file.SetNameservers([]netip.Addr{nameserver})
	file.SetOptions(hostOptions(s))
	return file.Bytes()
}

// hostOptions returns the options that the host would have without node-dns: those in the file that
// an admin's link leads to, which the admin may have edited, else those in the current file.
func hostOptions(s *State) []string {
	behind := resolvconf.Parse(s.Original.Data)
	if s.keepsOriginal() && s.leadsToAdmins(s.Original) && len(behind.Nameservers()) > 0 {
		return behind.Options()
	}
	return resolvconf.Parse(s.base().Data).Options()
}

// base is the file that ours is derived from: the current one, or the saved original if the current
// one was emptied.
func (s *State) base() File {
	if s.isEmptied() {
		return s.Original
	}
	return s.ResolvConf
}

// isEmptied reports whether resolv.conf is not ours and names no usable nameserver, while the saved
// original does. NetworkManager writes such a file if none of its connections has a nameserver, for
// example on a host whose interfaces it does not manage. The original stays valid then.
func (s *State) isEmptied() bool {
	refused := refuseCopies(s)
	return s.ResolvConf.Err == nil && !s.isEdit && !s.isOurs() && s.hasOriginal() && !usable(refused, s.ResolvConf.Data) && usable(refused, s.Original.Data)
}

// saveStep saves the resolv.conf that is about to be replaced. A link is saved as a link, so that
// it can be restored as one. A file that not everyone could read is saved as readable: the daemon
// reads it, and libc could not use it otherwise.
func saveStep(s *State) Step {
	if s.ResolvConf.Link != "" {
		return Step{Path: s.Paths.Original, Action: MakeLink, Target: s.ResolvConf.Link, Before: s.Original}
	}
	return Step{Path: s.Paths.Original, Action: WriteFile, Data: s.ResolvConf.Data, Mode: readable(s.ResolvConf.Mode), Before: s.Original}
}

// savesOriginal reports whether resolv.conf is to be saved, which it never is if it is ours. A
// later file replaces the saved one only if isNewer.
func (s *State) savesOriginal() bool {
	return s.ResolvConf.Exists && !s.isOurs() && (!s.Original.Exists || s.isNewer())
}

// keepsOriginal reports whether the saved original stays, whatever resolv.conf holds now.
func (s *State) keepsOriginal() bool { return s.Original.Exists && !s.savesOriginal() }

// isNewer reports whether the resolv.conf that replaced ours also replaces the saved original,
// because some program has written it since. A file without a usable nameserver never does, and
// that includes copies of ours, but not an admin's edit of ours. A file does not replace another
// program's link that leads to nameservers, because that program writes the link's target. Nor does
// it replace NetworkManager's own file, whose present list is known. The exception is
// NetworkManager with resolvconf(8): while openresolv has no nameserver itself, it restores an old
// file of NetworkManager's.
func (s *State) isNewer() bool {
	refused := refuseCopies(s)
	switch {
	case s.isEdit:
		return true
	case !usable(refused, s.ResolvConf.Data):
		return false
	case s.ResolvConf.Link != "":
		return s.ResolvConf.Link != s.Original.Link
	case s.Original.Link != "":
		return s.leadsToAdmins(s.Original) || !usable(refused, s.Original.Data)
	}
	return s.NetworkManager == nil || s.NetworkManager.RcManager == "resolvconf" || !fromNetworkManagerFile(s)
}

// leadsToAdmins reports whether f is a link to an admin's own file in /etc. The file is another
// program's if a further link leads out of /etc, if it belongs to pppd or resolvconf(8), or if
// NetworkManager writes through the link (rc-manager=file).
func (s *State) leadsToAdmins(f File) bool {
	for _, path := range []string{linkTarget("/", "/etc", f.Link), f.Target} {
		if !strings.HasPrefix(path, "/etc/") || strings.HasPrefix(path, "/etc/ppp/") || strings.HasPrefix(path, "/etc/resolvconf/") {
			return false
		}
	}
	return !resolvedStub(f) && !s.writesThroughLinks()
}

// writesThroughLinks reports whether NetworkManager has rc-manager=file: by its active settings, or
// while it does not answer, by its configuration files.
func (s *State) writesThroughLinks() bool {
	var mode, rcManager string
	switch {
	case s.NetworkManager != nil:
		mode, rcManager = s.NetworkManager.Mode, s.NetworkManager.RcManager
	case s.NetworkManagerSays != nil:
		mode, rcManager = s.NetworkManagerSays.DNS.Value, s.NetworkManagerSays.RcManager.Value
	}
	return rcManager == "file" && mode != "none"
}

// edited returns the resolv.conf that results from an admin's edit of ours. If another program
// restored a copy of an earlier file of ours, that is its original. If the edit changed the
// nameservers, that is the file without our line and without the cluster domain. If it changed the
// search list or the options, that is the saved original with the new ones. It returns false if the
// file is as we wrote it since boot, or if a tool added its nameserver to ours: such a change is
// overwritten.
func (s *State) edited() (File, bool) {
	history := parseRewrites(s.Rewrites.Data).Files[s.Paths.host(s.Paths.ResolvConf)]
	if !s.isOurs() || s.ResolvConf.Link != "" || s.NetErr != nil || s.ConfigErr != nil || !history.isOver(s.ResolvConf) {
		return File{}, false
	}
	refused, file := refuseCopies(s), resolvconf.Parse(s.ResolvConf.Data)
	if original, ok := history.original(s.ResolvConf); ok && writer(s.Original.Data) != "" {
		return original, len(resolvconf.Parse(original.Data).Nameservers()) > 0 // also that of a migrated dnsmasq, for an undo
	}
	for _, addr := range file.Nameservers() {
		if refused(nameserver.FromAddr(addr)) != "" {
			return s.editedOriginal(file)
		}
	}
	f := s.ResolvConf
	f.Data = unmarked(s, file).Bytes()
	return f, usable(refused, f.Data)
}

// editedOriginal returns the saved original with the search list and options of the current file,
// if they differ. It applies only to an admin's file: NetworkManager, or another program that made
// a link, sets its own search list. It does not apply if the host itself searched the cluster
// domain, because that entry cannot be told from ours. The original of a migrated dnsmasq names
// only this node: an undo of the migration restores it with the edit, and a stop does not.
func (s *State) editedOriginal(now *resolvconf.File) (File, bool) {
	admins := s.Original.Link == "" || s.leadsToAdmins(s.Original)
	if !s.hasOriginal() || !admins || len(resolvconf.Parse(s.Original.Data).Nameservers()) == 0 || s.followsNetworkManagerSearch() || s.hadClusterDomain() {
		return File{}, false
	}
	file := resolvconf.Parse(s.Original.Data)
	search := hostDomains(s, now.Search())
	if slices.Equal(search, hostDomains(s, file.Search())) && slices.Equal(now.Options(), file.Options()) {
		return File{}, false
	}
	file.SetSearch(search)
	file.SetOptions(now.Options())
	return File{Exists: true, Data: file.Bytes(), Mode: 0o644, Owner: s.Original.Owner}, true
}

// unmarked returns file without our line and the cluster domain.
func unmarked(s *State, file *resolvconf.File) *resolvconf.File {
	file.RemoveLine(Watermark)
	file.RemoveLine(LegacyWatermark)
	file.SetSearch(hostDomains(s, file.Search()))
	return file
}
