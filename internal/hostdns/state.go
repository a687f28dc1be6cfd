package hostdns

import (
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/resolvconf"
)

// State is all that has a say in the host's DNS files, as one value. Look fills it; tests write it by hand.
type State struct {
	Paths          Paths
	Event          nm.Event     // what woke us; the zero Event for apply, restore and plan
	NetworkManager *nm.Snapshot // nil: not running, or did not answer in time
	Config         nodeconfig.Config
	ConfigErr      error // faults in the configuration; Config holds the rest of it
	Net            netstate.State
	Now            time.Time // when a record is made; zero: now
	HasDnsmasqDir  bool      // the directory of Paths.Upstreams exists

	ResolvConf         File
	NetworkManagerConf File
	ResolvedUplinks    File
	Upstreams          File
	NodeResolvConf     File
	Original           File
	Record             File

	Problems []string // what could not be looked at, and why
}

// IsOurs reports whether text is an /etc/resolv.conf that node-dns, or the script before it, wrote: it has exactly one
// of the watermark lines. A comment that merely mentions the script does not count.
func IsOurs(text []byte) bool {
	file := resolvconf.Parse(text)
	return file.HasLine(Watermark) || file.HasLine(LegacyWatermark)
}

func (s State) isOurs() bool { return s.ResolvConf.Exists && IsOurs(s.ResolvConf.Data) }

// Placement is where the daemon listens on this host, and what resolv.conf must say.
func (s State) Placement() nodeconfig.Placement {
	return s.Config.Place(s.Net.IsLocal, s.Net.NodeIP())
}

// networkManagerWritesResolvConf reports whether NetworkManager itself would write /etc/resolv.conf: dns=none leaves it to the admin.
func (s State) networkManagerWritesResolvConf() bool {
	return s.NetworkManager != nil && s.NetworkManager.Mode != "none"
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
