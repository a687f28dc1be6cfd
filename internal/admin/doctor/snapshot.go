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
	"github.com/node-dns/node-dns/internal/sys/procfs"
)

// Snapshot is the state of a node as one value. Gather fills it, and tests write it by hand.
type Snapshot struct {
	Live bool      // whether it is the running host and not a directory tree
	Now  time.Time // the node's clock
	Host migrate.Host

	Status    *control.Status // status of the daemon; if nil, StatusErr holds the reason
	StatusErr error
	Units     map[string]migrate.Unit // nil if systemd does not run or was not queried
	Log       []string                // the daemon's last lines in the journal; set if it does not run
	Migration *migrate.Journal        // nil if there is none or it is not readable

	ResolvConf  Resolv
	SELinux     SELinux
	Skipped     []Skipped
	Hooks       []Program
	OldHooks    []Program
	NMConf      nm.Conf
	NMConfErr   error
	NSSwitch    hostdns.File
	Groups      hostdns.File // /etc/group
	Writers     []Finding    // other programs that write resolv.conf
	Kubelet     Kubelet
	Upstreams   []Probe
	Names       []Name // names for which the daemon and the nameservers were queried
	Pods        []LocalProbe
	FromHost    LocalProbe // Server is zero if resolv.conf does not name this node
	API         API
	Clock       Clock
	Storage     []Storage
	Descriptors uint64 // number of files that the daemon may open; 0 if unknown

	Program Build // this program
	Hook    Build // /usr/sbin/origin-dns-dispatcher; Err is set if there is none
	// Replaced is set if the daemon runs a program that is no longer installed (proc_pid_exe(5),
	// "(deleted)").
	Replaced bool
	Kernel   string // release from uname(2)
	Systemd  string // version; empty if unknown

	Unseen []string // what could not be inspected, and why
}

// Resolv describes /etc/resolv.conf, or the target of the link, without its content.
type Resolv struct {
	Kind     string // "regular" or another file type (fs.FileMode.Type); empty if there is no file
	Mode     fs.FileMode
	UID      uint32
	Label    string // SELinux label user:role:type:range; empty if there is none
	ReadOnly bool   // whether its file system is read-only
}

// SELinux is the state of SELinux with respect to node-dns. Without a loaded policy only Config and
// InKernel are known.
type SELinux struct {
	Mode     procfs.SELinuxMode
	Config   SELinuxConfig
	InKernel bool // whether the kernel has SELinux and its command line does not disable it

	HasModule   bool          // whether node-dns's policy module is installed; only root can see that
	Daemon      string        // domain of the running daemon; empty if unknown
	Hooks       []HookDomain  // domain of the hook's last run since boot, for each unit
	Mislabelled []Mislabelled // our files with a wrong label
	Denials     []Denial      // denials that concern us in the last hour, oldest first
}

// HookDomain is the domain of a run of the hook.
type HookDomain struct {
	Unit   string // unit of the run, such as NetworkManager-dispatcher.service
	Domain string
}

// Mislabelled is a file whose type differs from the policy.
type Mislabelled struct {
	Path, Has, Wants string
}

// Skipped is a command that systemd could not run in the current or latest start of its unit.
type Skipped struct {
	Unit    string
	Path    string   // path of the program
	Why     []string // systemd's reasons, without duplicates; at least one
	Ignored bool     // whether systemd continued because the setting has the prefix "-"
	Times   int      // number of messages
}

// Program is an executable file, such as a hook.
type Program struct {
	Path       string
	Executable bool
	Target     string // target of a link
}

// Kubelet describes the nameservers that the kubelet passes to pods.
type Kubelet struct {
	Configured bool   // whether this node has a kubelet configuration or a running kubelet
	Path       string // path of its resolvConf
	Source     string // where resolvConf is set; empty if it is the kubelet's default
	File       hostdns.File
	DNS        []netip.Addr // its clusterDNS
	SetBy      string       // where the running kubelet's resolvConf is or would be set; empty if unknown
	Faults     []string     // problems with the configuration files of the running kubelet
}

// Name is a question that was sent to the daemon over its control socket, with the answers of the
// daemon and its nameservers.
type Name struct {
	Name, Type string
	Why        string // why doctor queries it, such as "recently used"
	Given      bool   // whether the admin asked about it
	Cluster    bool   // whether it must exist if cluster names resolve
	Route      string // domain of its route; empty if there is none
	Answer     control.Answer
	Err        error // reason why the daemon gave no answer
	Direct     []Direct
}

// Direct holds the answers of one nameserver for a name, queried in several ways. The answers to
// queries that were not sent are zero.
type Direct struct {
	Server string
	UDP    Answer // with EDNS buffer size 1232
	DO     Answer // same as UDP with the DO bit
	Small  Answer // with EDNS buffer size 512
	Large  Answer // with EDNS buffer size 4096 and the DO bit
	TCP    Answer // with the DO bit
	CD     Answer // over UDP with the CD bit, which disables DNSSEC validation; sent only after SERVFAIL
}

// Asked holds the answers of this node to a client for a name. The answer in a way that failed for
// an earlier name is zero.
type Asked struct {
	Name, Type string
	Direct
}

// LocalProbe holds the answers of this node to queries from within a pod's network namespace, or
// from this host.
type LocalProbe struct {
	Namespace string     // file of the network namespace; empty for this host
	Client    netip.Addr // the pod's address; zero if it could not send queries, and for this host
	Pod       string     // NAMESPACE/NAME of a pod without an answer; empty if unknown
	Server    netip.AddrPort
	Mode      string  // of the interception, if Server is an intercepted address; else empty
	UDP, TCP  Answer  // answers to one query
	IsOther   bool    // whether another nameserver answered at an intercepted address
	Names     []Asked // nil unless UDP and TCP were answered
}

// Probe holds the answers of one upstream nameserver that was queried directly.
type Probe struct {
	Server  string   // as in the status
	Domains []string // domains for which it is queried, "." for all other names; at least one
	Source  string   // where it is configured, such as "NetworkManager eth0 (eth0)"; empty if unknown
	TLS     bool     // if set, only TCP is used
	UDP     Answer   // without EDNS
	EDNS    Answer   // over UDP with EDNS buffer size 1232
	TCP     Answer
	Proven  string // other name for which its certificate is valid according to a CA of this node; empty if there is none
	Large   Answer // over UDP, for an answer of more than 512 bytes; zero if not queried
}

// Answer is the result of one query.
type Answer struct {
	Err       error  // nil if there was any answer
	Rcode     string // empty if the query was not sent
	Records   int    // number of records in the answer section
	EDE       []control.ExtendedError
	EDNS      bool // whether the response has an OPT record
	Truncated bool
	Size      int // in bytes
	Took      time.Duration
}

// API describes access to the Kubernetes API from here.
type API struct {
	Rights
	Err    error // reason why it could not be queried
	Server string
	// NotBefore and NotAfter are from the client certificate. They are zero if there is none, as
	// with a token, or if it is not readable.
	NotBefore, NotAfter time.Time
	CertErr             error // reason why the kubeconfig, or a file it names, cannot be read
}

// Clock describes the reliability of the node's time.
type Clock struct {
	Known    bool      // whether adjtimex(2) succeeded
	Unsynced bool      // STA_UNSYNC
	BuiltAt  time.Time // build or installation time of this program; the current time cannot be earlier
}

// Storage is a directory that node-dns writes.
type Storage struct {
	Path     string
	Exists   bool
	Owner    string // user name or ID
	Want     string // expected owner; empty for any
	ReadOnly bool
	Free     uint64 // in bytes
	Inodes   uint64 // free inodes
	NoInodes bool   // whether the file system has no inode count
	Mode     fs.FileMode
	Err      error
}

// Build identifies a program file.
type Build struct {
	Path    string // empty for this program
	Version string // empty if the program does not report one
	Commit  string // empty if unknown
	Err     error  // reason why it cannot be read
}

// wanted returns the addresses on which node-dns listens or tries to. It and the methods it calls
// have a pointer receiver, because a copy would read fields that other parts of a gathering write.
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

// isRunning reports whether the daemon seems to run: it answers, or denies us access.
func (s Snapshot) isRunning() bool { return s.Status != nil || s.isDenied() }
