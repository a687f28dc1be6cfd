package doctor

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/sys/selinux"
)

const (
	resolvConf = "/etc/resolv.conf"
	netConf    = "net_conf_t"
)

// checkResolvConf judges the file that libc reads: what it is, and whom it names.
func checkResolvConf(s Snapshot) []Finding {
	file := s.Host.State.ResolvConf
	switch {
	case !file.Exists:
		return []Finding{fail(resolvConf+" does not exist: libc asks 127.0.0.1", "origin-dns-dispatcher apply; without node-dns: nmcli general reload dns-rc")}
	case file.Link != "" && s.ResolvConf.Kind == "" && file.Data == nil:
		return []Finding{fail(resolvConf+" leads to "+file.Link+", which does not exist: libc asks 127.0.0.1", "origin-dns-dispatcher apply; without node-dns: rm "+resolvConf+" && nmcli general reload dns-rc")}
	case file.Err != nil:
		return []Finding{fail(fmt.Sprintf("%s cannot be read: %v", resolvConf, file.Err), "ls -l "+resolvConf)}
	}
	return orFine(append(s.resolvConfFile(), s.resolvConfText()...), "%s", s.resolvConfWords())
}

// resolvConfFile judges the file without its content.
func (s Snapshot) resolvConfFile() []Finding {
	var found []Finding
	f := s.ResolvConf
	if f.Mode&0o004 == 0 {
		found = append(found, fail(fmt.Sprintf("%s has mode %04o: for all but its owner there are no nameservers", resolvConf, f.Mode), "chmod 644 "+resolvConf))
	}
	if f.Mode&0o022 != 0 {
		found = append(found, warn(fmt.Sprintf("%s has mode %04o: others than root may write it", resolvConf, f.Mode), "chmod 644 "+resolvConf))
	}
	// systemd-resolved's own files are systemd-resolve's.
	if f.UID != 0 && s.Host.State.ResolvConf.Link == "" {
		found = append(found, warn(fmt.Sprintf("%s is the user's %d, not root's", resolvConf, f.UID), "chown root:root "+resolvConf))
	}
	if kind := selinux.TypeOf(f.Label); s.SELinux.Mode.IsOn() && kind != netConf {
		found = append(found, fail(fmt.Sprintf("%s has the SELinux label %s, not %s: confined programs may not read it", resolvConf, orNone(kind), netConf), "restorecon -v "+resolvConf))
	}
	if f.Immutable {
		found = append(found, warn(resolvConf+" is immutable: nobody can change it, node-dns neither", "chattr -i "+resolvConf+", unless that is meant; resolvConf: none in node-dns.yaml then says so"))
	}
	if f.ReadOnly {
		found = append(found, warn(resolvConf+" is on a file system that is mounted read-only: it cannot follow the node's address", "mount shows where; a bind mount over it has to go"))
	}
	return found
}

// resolvConfText judges whom the file names.
func (s Snapshot) resolvConfText() []Finding {
	state := s.Host.State
	file := resolvconf.Parse(state.ResolvConf.Data)
	names := file.Nameservers()
	ours := hostdns.IsOurs(state.ResolvConf.Data)
	here := func(addr netip.Addr) bool { return state.Net.IsLocal(addr) && !addr.IsLoopback() }
	switch {
	case len(names) == 0 && !state.PointsResolved():
		return []Finding{fail(resolvConf+" names no nameserver: libc asks 127.0.0.1", "origin-dns-dispatcher plan says why")}
	case ours && errors.Is(s.StatusErr, control.ErrNotRunning):
		return []Finding{fail(resolvConf+" names this node ("+join(names)+"), where node-dns does not answer", "systemctl start node-dns; or node-dns restore, which brings the original nameservers back")}
	case s.Status == nil:
		return nil
	}
	r := s.Status.ResolvConf
	switch {
	case len(r.Pending) > 0:
		return []Finding{fail("the host's files are not what they should be: "+strings.Join(r.Pending, " "), "origin-dns-dispatcher plan says why; origin-dns-dispatcher apply, as root, writes them")}
	case state.Config.ResolvConf == nodeconfig.ResolvConfNone, r.DropIn != "", ours && r.Hold == "":
		return nil
	case r.Hold != "":
		return []Finding{warn(resolvConf+" is left alone: "+r.Hold, "origin-dns-dispatcher plan says more")}
	case !slices.ContainsFunc(names, here):
		return []Finding{warn(resolvConf+" does not name this node, but "+join(names)+": this host's own programs do not ask node-dns", "origin-dns-dispatcher plan says why")}
	}
	return nil
}

// resolvConfWords describe a file that is well.
func (s Snapshot) resolvConfWords() string {
	state := s.Host.State
	words := []string{"regular file"}
	if state.ResolvConf.Link != "" {
		words[0] = "link to " + state.ResolvConf.Link
	}
	if kind := selinux.TypeOf(s.ResolvConf.Label); kind != "" {
		words = append(words, "label "+kind)
	}
	file := resolvconf.Parse(state.ResolvConf.Data)
	owner := "not ours"
	if hostdns.IsOurs(state.ResolvConf.Data) {
		owner = "ours"
	}
	words = append(words, owner, "nameserver "+orNone(join(file.Nameservers())), count(len(file.Search()), "search domain"))
	return resolvConf + ": " + strings.Join(words, ", ")
}

func join(addrs []netip.Addr) string {
	var all []string
	for _, addr := range addrs {
		all = append(all, addr.String())
	}
	return strings.Join(all, " ")
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
