package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// checkVersions checks whether the installed parts match each other and this system.
func checkVersions(s Snapshot) []Finding {
	var found []Finding
	if s.Status != nil && s.Status.Version != s.Program.Version {
		found = append(found, warn(fmt.Sprintf("the running daemon is %s, but this program is %s", s.Status.Version, s.Program.Version), "systemctl restart node-dns starts the installed version; no queries are lost"))
	} else if s.Replaced {
		found = append(found, warn("the daemon's program was replaced after the daemon started", "systemctl restart node-dns starts the installed version; no queries are lost"))
	}
	switch h := s.Hook; {
	case errors.Is(h.Err, fs.ErrNotExist) && s.Systemd == "" && s.Host.State.NetworkManager == nil: // a container, in which nothing runs the hook
	case errors.Is(h.Err, fs.ErrNotExist):
		found = append(found, warn(h.Path+" is not installed, so the host's files are not written", "install the package node-dns"))
	case h.Err != nil:
		found = append(found, warn(fmt.Sprintf("%s cannot be read: %v", h.Path, h.Err), "reinstall the package node-dns"))
	case s.Program.Commit != "" && h.Commit != "" && s.Program.Commit != h.Commit:
		found = append(found, warn(fmt.Sprintf("%s is from a different build (commit %.12s) than this program (%.12s)", h.Path, h.Commit, s.Program.Commit), "reinstall the package node-dns"))
	}
	networkManager := ""
	if s.Host.State.NetworkManager != nil {
		networkManager = s.Host.State.NetworkManager.Version
	}
	words := []string{"node-dns " + s.Program.Version}
	// The oldest supported versions are the kernel and systemd of RHEL 8.10, and the NetworkManager
	// that the package recommends.
	for _, v := range []struct{ what, have, oldest string }{
		{"the kernel", s.Kernel, "4.18"},
		{"systemd", s.Systemd, "239"},
		{"NetworkManager", networkManager, "1.20"},
	} {
		if v.have == "" {
			continue
		}
		words = append(words, strings.TrimPrefix(v.what, "the ")+" "+v.have)
		if older(v.have, v.oldest) {
			found = append(found, warn(fmt.Sprintf("%s is %s, but node-dns requires %s or later", v.what, v.have, v.oldest), "update the system"))
		}
	}
	return orFine(found, "versions: %s", strings.Join(words, ", "))
}

// older compares the leading numbers of two versions. A version that starts with no number is not
// older.
func older(have, oldest string) bool {
	numbers := strings.FieldsFunc(have, func(r rune) bool { return r < '0' || r > '9' })
	for i, want := range strings.Split(oldest, ".") {
		if i >= len(numbers) {
			return false
		}
		n, err := strconv.Atoi(numbers[i])
		if wanted, _ := strconv.Atoi(want); err != nil || n != wanted {
			return err == nil && n < wanted
		}
	}
	return false
}

// checkAddress checks whether this node has the address that clients query.
func checkAddress(s Snapshot) []Finding {
	state := s.Host.State
	if state.NetErr != nil {
		return []Finding{warn("reading the addresses from the kernel failed: "+state.NetErr.Error(), "")}
	}
	if given := state.Config.NodeIP; given.IsValid() && !state.Net.IsLocal(given) {
		return []Finding{fail(given.String()+", the configured node address, is not on any interface", "ip address shows the existing ones; correct "+state.Config.Where("nodeIP", "kubeletArguments.node-ip"))}
	}
	placement := state.Placement()
	var found []Finding
	for _, problem := range placement.Problems {
		found = append(found, fail(problem, "bring the interface up; or set nodeIP: or listen: in /etc/node-dns/node-dns.yaml"))
	}
	return orFine(found, "this node's address %s is on an interface", placement.Nameserver)
}

func checkLook(s Snapshot) []Finding {
	if len(s.Unseen) == 0 {
		return nil
	}
	fix := ""
	if !s.Host.Root {
		fix = "run this as root"
	}
	return []Finding{warn("some checks could not be run", fix, oneLine(s.Unseen)...)}
}

// slack is how much earlier than the build or installation of this program the clock may be. The
// clock of the build machine may have been ahead.
const slack = 24 * time.Hour

var synchronisers = []string{
	"chronyd.service", "chrony.service", "ntpd.service", "ntp.service", "ntpsec.service", "systemd-timesyncd.service",
	"ptp4l.service", "phc2sys.service", "timemaster.service",
}

// checkClock checks the node's time. TLS to the API and DNS over TLS fail with a wrong time.
func checkClock(s Snapshot) []Finding {
	const fix = "systemctl enable --now chronyd sets the clock; it needs a reachable NTP server"
	c, by := s.Clock, "" // empty if none runs or if that is unknown
	if i := slices.IndexFunc(synchronisers, func(name string) bool { return s.Units[name].IsActive() }); i >= 0 {
		by = synchronisers[i]
	}
	switch {
	case !c.BuiltAt.IsZero() && s.Now.Before(c.BuiltAt.Add(-slack)):
		return []Finding{fail("the clock shows "+date(s.Now)+", but this program was built later, at "+date(c.BuiltAt)+": TLS fails", fix)}
	case c.Known && c.Unsynced && by == "":
		return []Finding{warn("the clock ("+date(s.Now)+") is not synchronized, and no known time service runs", fix)}
	case c.Known && c.Unsynced:
		return []Finding{warn("the clock ("+date(s.Now)+") is not synchronized although "+by+" runs", "chronyc tracking or timedatectl shows the reason")}
	case c.Known:
		return fine("the clock is synchronized (%s)", date(s.Now))
	}
	return fine("the clock shows %s", date(s.Now))
}

const (
	// littleRoom is in bytes. It is little for files of some KiB and one of some MiB (the cluster
	// snapshot).
	littleRoom   = 64 << 20
	noRoom       = 1 << 20
	littleInodes = 64
)

// checkStorage checks the owner and the free space of the directories that node-dns writes.
func checkStorage(s Snapshot) []Finding {
	var found []Finding
	var seen []string
	for _, d := range s.Storage {
		if errors.Is(d.Err, os.ErrPermission) || !d.Exists { // Unseen reports it, or its user creates it
			continue
		}
		seen = append(seen, d.Path)
		found = append(found, d.judge()...)
	}
	if len(seen) == 0 {
		return nil
	}
	return orFine(found, "disk space and permissions: %s", strings.Join(seen, ", "))
}

func (d Storage) judge() []Finding {
	var found []Finding
	if d.Want != "" && d.Owner != d.Want {
		found = append(found, fail(fmt.Sprintf("%s is owned by %s, but %s must write there", d.Path, d.Owner, d.Want), "chown "+d.Want+" "+termtext.Quote(d.Path)))
	}
	if d.Mode&0o002 != 0 {
		found = append(found, warn(fmt.Sprintf("%s has mode %04o: it is writable by all users", d.Path, d.Mode), "chmod o-w "+termtext.Quote(d.Path)))
	}
	switch {
	case d.ReadOnly:
		found = append(found, fail(d.Path+" is on a read-only file system: no state is saved", "mount -o remount,rw, or check the kernel log for the reason"))
	case d.Free < noRoom || !d.NoInodes && d.Inodes == 0:
		found = append(found, fail(fmt.Sprintf("%s is full: %d KiB and %d inodes are free", d.Path, d.Free>>10, d.Inodes), "free space: df -h "+termtext.Quote(d.Path)+"; df -i "+termtext.Quote(d.Path)))
	case d.Free < littleRoom || !d.NoInodes && d.Inodes < littleInodes:
		found = append(found, warn(fmt.Sprintf("%s is almost full: %d MiB and %d inodes are free", d.Path, d.Free>>20, d.Inodes), "free space: df -h "+termtext.Quote(d.Path)+"; df -i "+termtext.Quote(d.Path)))
	}
	return found
}

// checkDescriptors checks whether the daemon may open as many files as its configuration can
// require.
func checkDescriptors(s Snapshot) []Finding {
	if s.Descriptors == 0 {
		return nil
	}
	need := uint64(forward.SocketsPerQuestion * s.Host.State.Config.DNSForwardMax)
	if s.Descriptors < need {
		return []Finding{warn(fmt.Sprintf("the daemon may open %d files, and %d waiting queries (dnsForwardMax) need up to %d: beyond the limit queries are refused", s.Descriptors, s.Host.State.Config.DNSForwardMax, need),
			fmt.Sprintf("set LimitNOFILE=%d in a drop-in: systemctl edit node-dns", need+need/10))}
	}
	return fine("the daemon may open %d files", s.Descriptors)
}

// daemonGroup is the daemon's own group. Its members had the rights of control.AdminGroup before
// that group existed.
const daemonGroup = "node-dns"

// checkGroup finds members of the daemon's group who need to be in control.AdminGroup.
func checkGroup(s Snapshot) []Finding {
	admins := members(s.Groups.Data, control.AdminGroup)
	var found []Finding
	for _, user := range members(s.Groups.Data, daemonGroup) {
		what := fmt.Sprintf("%s is in the group %s, which no longer gives access to the daemon", user, daemonGroup)
		fix := fmt.Sprintf("gpasswd -d %s %s", termtext.Quote(user), daemonGroup)
		if !slices.Contains(admins, user) {
			fix = fmt.Sprintf("gpasswd -a %s %s && %s; it takes effect at the next login", termtext.Quote(user), control.AdminGroup, fix)
		}
		found = append(found, warn(what, fix))
	}
	return found
}

// members returns the users of a group from the text of a group(5) file.
func members(file []byte, group string) []string {
	for line := range strings.Lines(string(file)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) == 4 && fields[0] == group {
			return slices.DeleteFunc(strings.Split(fields[3], ","), func(user string) bool { return user == "" || user == daemonGroup })
		}
	}
	return nil
}
