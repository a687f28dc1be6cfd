package control

import (
	"context"
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/admin/searchlist"
)

const searchPath = "/v1/search"

// SearchQuestion asks whose resolv.conf it is about: a pod's, an ordinary one's of a namespace, or with neither this node's.
type SearchQuestion struct {
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"` // in Namespace
	// As is a client, as in Question: the pod with that name or address, or the node if none is known. It replaces Namespace and Pod, and
	// is for admins.
	As string `json:"as,omitempty"`
	// Kubelet is what the asker sees of the kubelet that runs; nil: nothing.
	Kubelet *KubeletTold `json:"kubelet,omitempty"`
}

// KubeletTold is what the kubelet that runs here was told, by its command line and the files that this names, as the asker sees it: the
// daemon sees no other processes, and not all files. A source is where; "": it is not known, and what the daemon knows counts; "default":
// nowhere, so that the kubelet goes by its default.
type KubeletTold struct {
	PID              int          `json:"pid"`
	DNS              []netip.Addr `json:"clusterDNS,omitempty"`
	DNSSource        string       `json:"clusterDNSSource,omitempty"`
	Domain           string       `json:"clusterDomain,omitempty"`
	DomainSource     string       `json:"clusterDomainSource,omitempty"`
	ResolvConf       *ToldFile    `json:"resolvConf,omitempty"` // nil where ResolvConfSource is ""
	ResolvConfSource string       `json:"resolvConfSource,omitempty"`
	// ResolvConfSetting is where that is set, or would be, as an admin is told.
	ResolvConfSetting string           `json:"resolvConfSetting,omitempty"`
	Problems          []KubeletProblem `json:"problems,omitempty"` // at most MaxKubeletProblems
}

// KubeletProblem is why something is not known of the kubelet's files.
type KubeletProblem struct {
	Text   string `json:"text"`             // one line that names the file, of at most MaxKubeletProblem octets
	Denied string `json:"denied,omitempty"` // the file, as long, where the asker may not read it, which the daemon may have
}

// Bounds of KubeletTold.Problems, for which MaxToldFile leaves room: how many, and the octets of each text.
const (
	MaxKubeletProblems = 4
	MaxKubeletProblem  = 300
)

// ToldFile is what a resolv.conf says that a kubelet was told of, as the asker has read it. The text itself stays with the asker: root
// may have read what is not for the daemon.
type ToldFile struct {
	Path        string       `json:"path"` // "": the kubelet is to use none
	Nameservers []netip.Addr `json:"nameservers,omitempty"`
	Search      []string     `json:"search,omitempty"`
	Options     []string     `json:"options,omitempty"`
	Ours        bool         `json:"ours,omitempty"` // node-dns has written it
	Missing     bool         `json:"missing,omitempty"`
	Unread      string       `json:"unread,omitempty"` // why it could not be read
}

// MaxToldFile bounds the file that a ToldFile is made of, in octets, of which JSON may make six each: what it says must fit a question,
// with all that is beside it.
const MaxToldFile = 8 << 10

const _ = uint(maxQuestion - 6*MaxToldFile - 16<<10)

// Search is a resolv.conf, and how it comes about.
type Search struct {
	APIVersion  string    `json:"apiVersion"`
	Kind        string    `json:"kind"`
	Namespace   string    `json:"namespace,omitempty"` // "": the node's own
	Pod         string    `json:"pod,omitempty"`
	Policy      string    `json:"dnsPolicy,omitempty"`
	Nameservers []string  `json:"nameservers"`
	Domains     []string  `json:"search"`
	Options     []string  `json:"options"`
	LocalDomain string    `json:"localDomain,omitempty"` // the host name's, where there is no list
	Own         []string  `json:"ownAddresses"`          // nameservers that are this node
	Host        *HostFile `json:"kubeletResolvConf,omitempty"`
	// DNSSource and DomainSource are where the kubelet is told its clusterDNS and clusterDomain; "": it is not about a pod.
	DNSSource    string   `json:"clusterDNSSource,omitempty"`
	DomainSource string   `json:"clusterDomainSource,omitempty"`
	Autopath     Walk     `json:"autopath"`
	Faults       []Fault  `json:"faults"`
	Notes        []string `json:"notes"`
}

// HostFile is the resolv.conf that the kubelet makes pods' ones of.
type HostFile struct {
	Path        string   `json:"path"`
	Source      string   `json:"source"` // where the kubelet is told so
	Nameservers []string `json:"nameservers"`
	Search      []string `json:"search"`
}

// Walk says whether the node walks the search list.
type Walk struct {
	On  bool   `json:"on"`
	Why string `json:"why,omitempty"` // it does not
}

// Fault is what is wrong, and what to do about it.
type Fault struct {
	What string `json:"what"`
	Fix  string `json:"fix"`
}

// noSearch is the list of who asks for whole names.
func noSearch() Search {
	return Search{
		APIVersion: APIVersion, Kind: "Search",
		Nameservers: []string{}, Domains: []string{}, Options: []string{}, Own: []string{}, Faults: []Fault{}, Notes: []string{},
	}
}

// FetchSearch asks the daemon that listens on path.
func FetchSearch(ctx context.Context, path string, question SearchQuestion) (Search, error) {
	return ask[Search](ctx, path, searchPath, question)
}

// conf is the resolv.conf as a value.
func (s Search) conf() searchlist.Conf {
	c := searchlist.Conf{Search: s.Domains, Options: s.Options, LocalDomain: s.LocalDomain}
	for _, text := range s.Nameservers {
		if addr, err := netip.ParseAddr(text); err == nil {
			c.Nameservers = append(c.Nameservers, addr)
		}
	}
	return c
}

// isOwn reports whether a nameserver is this node.
func (s Search) isOwn(nameserver string) bool { return slices.Contains(s.Own, nameserver) }
