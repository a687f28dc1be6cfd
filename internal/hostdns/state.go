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

// State is all that has a say in the host's DNS files, as one value. Look fills it; tests write it by hand.
type State struct {
	Paths          Paths
	Event          nm.Event     // what woke us; the zero Event for apply, restore and plan
	NetworkManager *nm.Snapshot // nil: not running, or did not answer in time
	// NetworkManagerSays is what its configuration files say, but for our Snippet; nil: not known, or NetworkManager reads others.
	NetworkManagerSays *nm.Conf
	// ResolvedSays is what systemd-resolved's configuration files say, but for our DropIn; nil: not known, or of no interest.
	ResolvedSays  *ResolvedConf
	Config        nodeconfig.Config
	NetErr        error // why the kernel could not be asked; Net knows no address then
	ConfigErr     error // faults in the configuration; Config holds the rest of it
	Net           netstate.State
	Now           time.Time // when a record is made; zero: now
	HasDnsmasqDir bool      // the directory of Paths.Upstreams exists

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
	Kubeconfig         File      // read where Handover is not nil
	Handover           *Handover // nil: it is not known what the daemon may read, and what was handed over stays
	Rewrites           File

	Deaf []netip.AddrPort // loopback addresses that are named as nameservers, where nothing listens

	HasCluster bool // there are credentials for a cluster's API, or what was kept of one; Config.HasCluster is about the files

	LacksWayBack bool // the daemon's unit has started, and systemd has not run our program in that start: see NoWayBack

	UpstreamsAlone, NodeResolvConfAlone bool // nothing else is in its directory, and no dnsmasq reads that

	KubeletNaming string // which kubelet may read NodeResolvConf, as a sentence; "": none, or it is no purge, which alone looks for it

	Problems []string // what could not be looked at, and why

	parsed *known // what Look has made of two of the files; nil: they are parsed when needed
}

// IsOurs reports whether text is an /etc/resolv.conf that node-dns, or the script before it, wrote: it has exactly one
// of the watermark lines. A comment that merely mentions the script does not count.
func IsOurs(text []byte) bool {
	file := resolvconf.Parse(text)
	return file.HasLine(Watermark) || file.HasLine(LegacyWatermark)
}

func (s State) isOurs() bool { return s.ResolvConf.Exists && IsOurs(s.ResolvConf.Data) }

// Place says where config puts node-dns on a host with these addresses. record is the upstream record, whose earlier addresses
// are listened on as long as they are local; nil: there were none.
func Place(config nodeconfig.Config, net netstate.State, record []byte) nodeconfig.Placement {
	earlier, _ := upstream.ParseRecord(record) // empty when it cannot be read
	return place(config, net, earlier.Pointed)
}

func place(config nodeconfig.Config, net netstate.State, earlier []netip.Addr) nodeconfig.Placement {
	return config.Place(nodeconfig.Host{IsLocal: net.IsLocal, NodeIP: net.NodeIP(), Asked: slices.Concat(earlier, net.ContainerBridges())})
}

// Placement is where the daemon listens on this host, and what resolv.conf must say.
func (s State) Placement() nodeconfig.Placement {
	earlier, _ := s.record() // empty when it cannot be read
	return place(s.Config, s.Net, earlier.Pointed)
}

// networkManagerWritesSearch reports whether the search list of resolv.conf is NetworkManager's: it writes the file, or
// has systemd-resolved do it, or would without our Snippet. The present content does not count, because another tool may
// have overwritten it. dns=none and an admin's rc-manager=unmanaged leave the file to the admin.
func (s State) networkManagerWritesSearch() bool {
	switch {
	case s.NetworkManager == nil || s.NetworkManager.Mode == "none":
		return false
	case resolvedStub(s.ResolvConf) || resolvedStub(s.Original):
		// It hands its list on, with dns=default too, which a restart while our file stands in place of the link leaves it with. The file
		// behind the link may search more: systemd-resolved takes ours for an admin's configuration, and keeps what that searched.
		return true
	case s.NetworkManager.Mode == "systemd-resolved":
		return false
	case s.leadsElsewhere() && s.NetworkManager.RcManager != "file": // rc-manager=symlink, the default, leaves such a link alone
		return false
	}
	return s.networkManagerWrites() || s.isShielded() && s.NetworkManager.RcManager == "unmanaged"
}

// leadsElsewhere reports whether resolv.conf is a link, or was before ours displaced it, to a file that is not NetworkManager's.
func (s *State) leadsElsewhere() bool {
	link := s.link()
	return link != "" && !strings.Contains(link, "run/NetworkManager/")
}

// leadsToResolvconf reports whether resolv.conf is a link to the file that resolvconf(8) writes, or was before ours replaced it. Debian's
// resolvconf also has that file below /etc/resolvconf/run.
func (s *State) leadsToResolvconf() bool {
	return strings.HasSuffix(s.link(), "/run/resolvconf/resolv.conf") || strings.HasSuffix(s.link(), "/resolvconf/run/resolv.conf")
}

// link is where resolv.conf leads, or led before ours displaced it; "": it is no link.
func (s *State) link() string {
	if s.ResolvConf.Link == s.Original.Link {
		return s.Original.Link // whether the original stays is no matter, and may depend on this
	}
	if link := s.ResolvConf.Link; !s.keepsOriginal() || s.isOurs() && link != "" {
		return link
	}
	return s.Original.Link
}

// byNetworkManager reports whether text says that NetworkManager wrote it ("Generated by NetworkManager").
func byNetworkManager(text []byte) bool { return strings.Contains(writer(text), "by NetworkManager") }

// writer is who a resolv.conf says wrote it, other than us: what was kept under our line.
func writer(text []byte) string {
	file := resolvconf.Parse(text)
	file.RemoveLine(Watermark)
	file.RemoveLine(LegacyWatermark)
	return file.Owner()
}

// resolvedStub reports whether a resolv.conf is systemd-resolved's: a link into its directory, or a file that names
// nothing but its stub listeners (127.0.0.53 and, since 248, 127.0.0.54).
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
