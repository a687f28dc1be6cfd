package doctor

import (
	"io/fs"
	"net/netip"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/migrate"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/selinux"
)

// Snapshot is a node as it was looked at, as one value. Gather fills it; tests write it by hand.
type Snapshot struct {
	Live bool      // it is the host that runs, and not a tree of files
	Now  time.Time // by the node's clock
	Host migrate.Host

	Status    *control.Status // of the daemon; nil: StatusErr says why there is none
	StatusErr error
	Units     map[string]migrate.Unit // nil: systemd does not run, or was not asked
	Log       []string                // the daemon's last lines in the journal, where it does not run
	Migration *migrate.Journal        // nil: there is none, or it may not be read

	ResolvConf  Resolv
	SELinux     SELinux
	Skipped     []Skipped
	Hooks       []Program
	OldHooks    []Program
	NMConf      nm.Conf
	NMConfErr   error
	NSSwitch    hostdns.File
	Groups      hostdns.File // /etc/group
	Writers     []Finding    // what writes resolv.conf beside NetworkManager
	Kubelet     Kubelet
	Upstreams   []Probe
	Names       []Name // that were asked for through the daemon, and of the servers directly
	Pods        []PodProbe
	API         API
	Clock       Clock
	Storage     []Storage
	Descriptors uint64 // how many files the daemon may open; 0: not known

	Program Build // this program
	Hook    Build // /usr/sbin/origin-dns-dispatcher; its Err where there is none
	// Replaced says that the daemon runs a program that is no longer installed (proc_pid_exe(5), "(deleted)").
	Replaced bool
	Kernel   string // release, as uname(2) has it
	Systemd  string // version; "": not known

	Unseen []string // what could not be looked at, and why
}

// Resolv is what /etc/resolv.conf is beside its content: of what a link leads to.
type Resolv struct {
	Kind     string // regular, or what else (fs.FileMode.Type); "": there is none
	Mode     fs.FileMode
	UID      uint32
	Label    string // of SELinux, as user:role:type:range; "": none
	ReadOnly bool   // its file system is mounted so
}

// SELinux is what SELinux says about node-dns. Without a policy that is loaded only Config and InKernel are known.
type SELinux struct {
	Mode     selinux.Mode
	Config   selinux.Config
	InKernel bool // the kernel has SELinux, and its command line does not disable it

	HasModule   bool             // the policy module of node-dns is installed; only root sees that
	Daemon      string           // domain of the running daemon; "": not known
	Hooks       []HookDomain     // of the hook's last run since the boot, for each unit
	Mislabelled []Mislabelled    // files of ours
	Denials     []selinux.Denial // that concern us, within the last hour, oldest first
}

// HookDomain is the domain in which the hook ran.
type HookDomain struct {
	Unit   string // in which it ran, such as NetworkManager-dispatcher.service
	Domain string
}

// Mislabelled is a file whose type is not the one that the policy says.
type Mislabelled struct {
	Path, Has, Wants string
}

// Skipped is a command of a unit that systemd could not run in the unit's present or last start.
type Skipped struct {
	Unit    string
	Path    string   // of the program
	Why     []string // in systemd's words, each once; at least one
	Ignored bool     // systemd went on as if it had been run: the setting has the prefix "-"
	Times   int      // how often systemd said so
}

// Program is a file that somebody may run.
type Program struct {
	Path       string
	Executable bool
	Target     string // of a link
}

// Kubelet is whom it tells pods to ask.
type Kubelet struct {
	Configured bool   // there is a kubelet's configuration on this node, or a kubelet runs
	Path       string // of its resolvConf
	Source     string // where that is said; "": it is the kubelet's default
	File       hostdns.File
	DNS        []netip.Addr // its clusterDNS
	SetBy      string       // where the one that runs is told of Path, or would be; "": not known
	Faults     []string     // of the configuration files that the one that runs was told of
}

// Name is a question that the daemon was asked over its control socket, as a client, and what its nameservers answer.
type Name struct {
	Name, Type string
	Why        string // why doctor asks for it, such as "in recent use"
	Given      bool   // by the admin
	Cluster    bool   // it must exist if the cluster's names resolve
	Route      string // the domain of its route; "": it has none
	Answer     control.Answer
	Err        error // why the daemon gave no answer
	Direct     []Direct
}

// Direct is what one nameserver answers for a name, asked in several ways. What was not asked is zero.
type Direct struct {
	Server string
	UDP    Answer // with EDNS 1232
	DO     Answer // the same with the DO bit
	Small  Answer // EDNS 512
	Large  Answer // EDNS 4096, and the DO bit
	TCP    Answer // with the DO bit
	CD     Answer // over UDP with the CD bit: without DNSSEC validation; asked after SERVFAIL alone
}

// PodProbe is one question to this node from within a pod's network namespace.
type PodProbe struct {
	Namespace string     // file of the network namespace
	Client    netip.Addr // the pod's address; zero: it could not ask
	Server    netip.AddrPort
	UDP, TCP  Answer
}

// Probe is how one upstream nameserver answered when it was asked directly.
type Probe struct {
	Server  string   // as the status has it
	Domains []string // whose names it is asked, "." for all that have no others; at least one
	Source  string   // what names it, such as "NetworkManager eth0 (eth0)"; "": not known
	TLS     bool     // only TCP is asked then
	UDP     Answer   // without EDNS
	EDNS    Answer   // over UDP, EDNS with 1232 octets
	TCP     Answer
	Proven  string // a name that its certificate is for by an authority of this node, where it is not the configured one; "": none
	Large   Answer // over UDP, of what takes more than 512 octets; zero: it was not asked
}

// Answer is what came of one question.
type Answer struct {
	Err       error  // nil: it answered, whatever that was
	Rcode     string // "": it was not asked
	Records   int    // in the answer section
	EDE       []control.ExtendedError
	EDNS      bool // the response has an OPT record
	Truncated bool
	Size      int // octets
	Took      time.Duration
}

// API is how the Kubernetes API can be reached from here.
type API struct {
	Rights
	Err    error // why it could not be asked
	Server string
	// Certificate is the client's; zero: there is none, as with a token, or it may not be read.
	NotBefore, NotAfter time.Time
	CertErr             error // why the kubeconfig, or a file that it names, cannot be read
}

// Clock is how sure the node is of the time.
type Clock struct {
	Known    bool      // adjtimex(2) was asked
	Unsynced bool      // STA_UNSYNC
	BuiltAt  time.Time // when this program was built, or installed: it cannot be earlier now
}

// Storage is a directory that must be written.
type Storage struct {
	Path     string
	Exists   bool
	Owner    string // the user's name, or the number
	Want     string // whose it must be; "": nobody's in particular
	ReadOnly bool
	Free     uint64 // octets
	Inodes   uint64 // that are free
	NoInodes bool   // the file system counts none
	Mode     fs.FileMode
	Err      error
}

// Build is which program a file is.
type Build struct {
	Path    string // "" of this program
	Version string // "" of what does not say
	Commit  string // "": not known
	Err     error  // why it cannot be read
}

// wanted are the addresses that node-dns listens at, or would. A pointer, as for what it calls: a copy would read what other parts of a
// gathering write.
func (s *Snapshot) wanted() []netip.AddrPort {
	var all []netip.AddrPort
	if s.Status != nil {
		for _, l := range s.Status.Listeners {
			if at, err := netip.ParseAddrPort(l.Address); err == nil {
				all = append(all, at)
			}
		}
		return all
	}
	return policy.Listeners(s.Host.State.Config, s.Host.Dnsmasq, s.Host.State.Net)
}

// isRunning reports whether the daemon runs, as far as can be told: it answers, or it would not let us ask.
func (s Snapshot) isRunning() bool { return s.Status != nil || s.isDenied() }
