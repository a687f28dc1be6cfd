package hostdns

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/upstream"
)

// State is everything that affects the host's DNS files, as one value. Look fills it; tests write
// it by hand.
type State struct {
	Paths          Paths
	Event          nm.Event     // the event behind this run; zero for apply, restore and plan
	NetworkManager *nm.Snapshot // nil if it does not run or did not answer in time
	// NetworkManagerSays is the content of its configuration files without our Snippet. nil if
	// unknown, or if NetworkManager reads other files.
	NetworkManagerSays *nm.Conf
	// ResolvedSays is the content of systemd-resolved's configuration files without our DropIn. nil
	// if unknown or not needed.
	ResolvedSays  *ResolvedConf
	Config        nodeconfig.Config
	NetErr        error // why the kernel's state could not be read; Net then has no addresses
	ConfigErr     error // errors in the configuration; Config holds the valid rest
	Net           netstate.State
	Now           time.Time // time for a new record; zero means now
	HasDnsmasqDir bool      // the directory of Paths.Upstreams exists
	HostName      string    // "" if unknown

	ResolvConf         File
	NetworkManagerConf File
	NetworkManagerList File
	ResolvedUplinks    File
	Upstreams          File
	NodeResolvConf     File
	Snippet            File
	DropIn             File
	Original           File
	Record             File
	Facts              File
	Kubeconfig         File      // read if Handover is not nil
	Handover           *Handover // nil if it is unknown what the daemon may read; the current copy stays
	Rewrites           File

	// IsMounted means that resolv.conf is a mount point, which NetworkManager cannot write: it
	// renames a new file to the path (EBUSY).
	IsMounted bool

	Deaf []netip.AddrPort // configured loopback nameservers where nothing listens

	HasCluster bool // there are credentials for a cluster's API, or a cached copy; Config.HasCluster is about the files

	LacksWayBack bool // the daemon's unit has started, but systemd has not run our program in that start; see NoWayBack

	UpstreamsAlone, NodeResolvConfAlone bool // the file is the only one in its directory, and no dnsmasq reads the directory

	KubeletNaming string // which kubelet may read NodeResolvConf, as a sentence; "" if none does, or without a purge

	Migrated bool // a migration was not undone; false without a purge

	Problems []string // what could not be read, and why

	parsed *known // cached by Look and by plans; nil makes known parse the two files
	isEdit bool   // ResolvConf is an admin's edit of ours, without our line: see edited
}

// IsOurs reports whether text is an /etc/resolv.conf that node-dns or the old script wrote: it
// contains exactly one of the watermark lines. A comment that only mentions the script does not
// count.
func IsOurs(text []byte) bool {
	file := resolvconf.Parse(text)
	return file.HasLine(Watermark) || file.HasLine(LegacyWatermark)
}

func (s *State) isOurs() bool { return s.ResolvConf.Exists && IsOurs(s.ResolvConf.Data) }

// Place returns where config puts node-dns on a host with these addresses. record is the upstream
// record: its earlier addresses stay in use while they are local. nil means that there are none.
// dnsService are the addresses of the cluster's DNS Service, as far as the caller knows them.
func Place(config nodeconfig.Config, net netstate.State, record []byte, dnsService ...netip.Addr) nodeconfig.Placement {
	earlier, _ := upstream.ParseRecord(record) // empty when it cannot be read
	return place(config, net, earlier.Pointed, dnsService)
}

func place(config nodeconfig.Config, net netstate.State, earlier, dnsService []netip.Addr) nodeconfig.Placement {
	return config.Place(nodeconfig.Host{
		IsLocal: net.IsLocal, IsService: net.IsService, NodeIP: net.NodeIP(),
		Asked: slices.Concat(earlier, net.ContainerBridges()), DNSService: dnsService,
	})
}

// Placement returns where the daemon listens on this host, and what resolv.conf must contain.
func (s *State) Placement() nodeconfig.Placement {
	earlier, _ := s.record() // empty when it cannot be read
	return place(s.Config, s.Net, earlier.Pointed, nil)
}

// networkManagerWritesSearch reports whether NetworkManager decides resolv.conf's search list: it
// writes the file, or makes systemd-resolved write it, or would without our Snippet. The file's
// present content does not count, because another tool may have overwritten it. dns=none and an
// admin's rc-manager=unmanaged leave the file to the admin.
func (s *State) networkManagerWritesSearch() bool {
	switch {
	case s.NetworkManager == nil || s.NetworkManager.Mode == "none":
		return false
	case resolvedStub(s.ResolvConf) || resolvedStub(s.Original):
		// NetworkManager passes its list on to systemd-resolved. It also does so with dns=default,
		// which is its mode after a restart while our file replaces the link. The file behind the
		// link may search more: systemd-resolved treats ours as an admin's configuration and keeps
		// its search list.
		return true
	case s.NetworkManager.Mode == "systemd-resolved":
		return false
	case s.isForeignLink() && s.NetworkManager.RcManager != "file": // rc-manager=symlink, the default, does not write through such a link
		return false
	}
	return s.networkManagerWrites() || s.isShielded() && s.NetworkManager.RcManager == "unmanaged"
}

// isForeignLink reports whether resolv.conf is, or was before ours replaced it, a link to a file
// that is not NetworkManager's.
func (s *State) isForeignLink() bool {
	link := s.link()
	return link != "" && !strings.Contains(link, "run/NetworkManager/")
}

// leadsToResolvconf reports whether resolv.conf is, or was before ours replaced it, a link to the
// file that resolvconf(8) writes. Debian's resolvconf also has that file below /etc/resolvconf/run.
func (s *State) leadsToResolvconf() bool {
	return strings.HasSuffix(s.link(), "/run/resolvconf/resolv.conf") || strings.HasSuffix(s.link(), "/resolvconf/run/resolv.conf")
}

// link is the target of resolv.conf, or of the link that ours replaced, or "" if it is not a link.
func (s *State) link() string {
	if s.ResolvConf.Link == s.Original.Link {
		return s.Original.Link // the same in either case; keepsOriginal may call link
	}
	if link := s.ResolvConf.Link; !s.keepsOriginal() || s.isOurs() && link != "" {
		return link
	}
	return s.Original.Link
}

// byNetworkManager reports whether text says that NetworkManager wrote it ("Generated by
// NetworkManager").
func byNetworkManager(text []byte) bool { return strings.Contains(writer(text), "by NetworkManager") }

// writer returns the program that wrote a resolv.conf, other than us, according to the lines that
// ours kept.
func writer(text []byte) string {
	file := resolvconf.Parse(text)
	file.RemoveLine(Watermark)
	file.RemoveLine(LegacyWatermark)
	return file.Owner()
}

// resolvedStub reports whether a resolv.conf is systemd-resolved's: a link into its directory, or a
// file that names only its stub listeners (127.0.0.53 and, since 248, 127.0.0.54).
func resolvedStub(f File) bool {
	if strings.HasPrefix(filepath.Clean(f.Link), "/run/systemd/resolve/") ||
		strings.Contains(f.Link, "../run/systemd/resolve/") {
		return true
	}
	nameservers := resolvconf.Parse(f.Data).Nameservers()
	for _, addr := range nameservers {
		if !isResolvedStub(addr) {
			return false
		}
	}
	return len(nameservers) > 0
}

func isResolvedStub(addr netip.Addr) bool {
	return addr == netip.AddrFrom4([4]byte{127, 0, 0, 53}) || addr == netip.AddrFrom4([4]byte{127, 0, 0, 54})
}
