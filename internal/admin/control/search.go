package control

import (
	"context"
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/resolvconf"
)

const searchPath = "/v1/search"

// SearchQuestion selects a resolv.conf: a pod's, that of an ordinary pod in a namespace, or, if
// both fields are empty, this node's.
type SearchQuestion struct {
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"` // in Namespace
	// As is a client as in Question: the pod with that name or address, or the node if no pod is
	// known. It replaces Namespace and Pod and is for admins only.
	As string `json:"as,omitempty"`
	// Kubelet is what the client knows about the running kubelet. nil means nothing.
	Kubelet *KubeletTold `json:"kubelet,omitempty"`
}

// KubeletTold is the configuration of the running kubelet, from its command line and the files
// named there, as the client of this socket sees it. The daemon cannot see other processes or all
// files. Each Source field says where a value is set. If it is empty, the value is unknown and the
// daemon uses its own knowledge. "default" means that the value is not set and the kubelet uses its
// default.
type KubeletTold struct {
	PID              int          `json:"pid"`
	DNS              []netip.Addr `json:"clusterDNS,omitempty"`
	DNSSource        string       `json:"clusterDNSSource,omitempty"`
	Domain           string       `json:"clusterDomain,omitempty"`
	DomainSource     string       `json:"clusterDomainSource,omitempty"`
	ResolvConf       *ToldFile    `json:"resolvConf,omitempty"` // nil if ResolvConfSource is empty
	ResolvConfSource string       `json:"resolvConfSource,omitempty"`
	// ResolvConfSetting is where resolvConf is set, or would be set, as shown to an admin.
	ResolvConfSetting string           `json:"resolvConfSetting,omitempty"`
	Problems          []KubeletProblem `json:"problems,omitempty"` // at most MaxKubeletProblems
}

// KubeletProblem says why part of the kubelet's configuration is unknown.
type KubeletProblem struct {
	Text   string `json:"text"`             // one line that names the file, at most MaxKubeletProblem bytes
	Denied string `json:"denied,omitempty"` // path that the client may not read but the daemon might; same limit
}

// Limits of KubeletTold.Problems: their number, and the bytes of each text. MaxToldFile leaves room
// for them.
const (
	MaxKubeletProblems = 4
	MaxKubeletProblem  = 300
)

// ToldFile is the content of the kubelet's resolv.conf as parsed by the client. The client does not
// send the text itself, because root may have read a file that the daemon must not see.
type ToldFile struct {
	Path        string       `json:"path"` // empty if the kubelet is set to use none
	Nameservers []netip.Addr `json:"nameservers,omitempty"`
	Search      []string     `json:"search,omitempty"`
	Options     []string     `json:"options,omitempty"`
	Ours        bool         `json:"ours,omitempty"` // whether node-dns wrote it
	Missing     bool         `json:"missing,omitempty"`
	Unread      string       `json:"unread,omitempty"` // why it could not be read
}

// MaxToldFile limits the size in bytes of the file behind a ToldFile. JSON may encode a byte as
// six, and the values must fit into a question together with the other fields.
const MaxToldFile = 8 << 10

const _ = uint(maxQuestion - 6*MaxToldFile - 16<<10)

// Search is a resolv.conf and how it is derived.
type Search struct {
	APIVersion  string    `json:"apiVersion"`
	Kind        string    `json:"kind"`
	Namespace   string    `json:"namespace,omitempty"` // empty for the node's own
	Pod         string    `json:"pod,omitempty"`
	Policy      string    `json:"dnsPolicy,omitempty"`
	Nameservers []string  `json:"nameservers"`
	Domains     []string  `json:"search"`
	Options     []string  `json:"options"`
	LocalDomain string    `json:"localDomain,omitempty"` // domain of the host name, used if there is no list
	Own         []string  `json:"ownAddresses"`          // nameservers that are addresses of this node
	Host        *HostFile `json:"kubeletResolvConf,omitempty"`
	// DNSSource and DomainSource are where the kubelet's clusterDNS and clusterDomain are set. They
	// are empty if this is not about a pod.
	DNSSource    string   `json:"clusterDNSSource,omitempty"`
	DomainSource string   `json:"clusterDomainSource,omitempty"`
	Autopath     Walk     `json:"autopath"`
	Faults       []Fault  `json:"faults"`
	Notes        []string `json:"notes"`
	LeftTo       string   `json:"leftTo,omitempty"` // as in Status
}

// HostFile is the resolv.conf from which the kubelet derives those of pods.
type HostFile struct {
	Path        string   `json:"path"`
	Source      string   `json:"source"` // where the kubelet's setting is
	Nameservers []string `json:"nameservers"`
	Search      []string `json:"search"`
}

// Walk says whether the node walks the search list.
type Walk struct {
	On  bool   `json:"on"`
	Why string `json:"why,omitempty"` // reason for not walking
}

// Fault is a problem and its fix.
type Fault struct {
	What string `json:"what"`
	Fix  string `json:"fix"`
}

// noSearch returns an empty search list, for fully qualified names.
func noSearch() Search {
	return Search{
		APIVersion: APIVersion, Kind: "Search",
		Nameservers: []string{}, Domains: []string{}, Options: []string{}, Own: []string{}, Faults: []Fault{}, Notes: []string{},
	}
}

// FetchSearch fetches a resolv.conf from the daemon that listens on path.
func FetchSearch(ctx context.Context, path string, question SearchQuestion) (Search, error) {
	return ask[Search](ctx, path, searchPath, question)
}

// conf converts s for package resolvconf.
func (s Search) conf() resolvconf.Content {
	c := resolvconf.Content{Search: s.Domains, Options: s.Options, LocalDomain: s.LocalDomain}
	for _, text := range s.Nameservers {
		if addr, err := netip.ParseAddr(text); err == nil {
			c.Nameservers = append(c.Nameservers, addr)
		}
	}
	return c
}

// isOwn reports whether nameserver is an address of this node.
func (s Search) isOwn(nameserver string) bool { return slices.Contains(s.Own, nameserver) }
