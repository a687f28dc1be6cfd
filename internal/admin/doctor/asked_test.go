package doctor

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/firewall"
	"github.com/node-dns/node-dns/internal/admin/migrate"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

const upstreamAddr = "192.0.2.53:53"

// says returns an answer with this rcode, and with a record if the rcode is NOERROR.
func says(rcode string) Answer {
	a := Answer{Rcode: rcode, EDNS: true, Size: 100, Took: time.Millisecond}
	if rcode == "NOERROR" {
		a.Records = 1
	}
	return a
}

// answered returns the daemon's answer with this rcode.
func answered(rcode string) control.Answer {
	a := control.Answer{Rcode: rcode}
	if rcode == "NOERROR" {
		a.Answer = []control.Record{{Name: "www.example.", TTL: 60, Class: "IN", Type: "A", Data: "192.0.2.1"}}
	}
	return a
}

// direct returns a nameserver that gives the same answer in every way.
func direct(rcode string) Direct {
	a := says(rcode)
	return Direct{Server: upstreamAddr, UDP: a, DO: a, Small: a, Large: a, TCP: a}
}

// asked adds a name that was queried.
func asked(n Name) func(*Snapshot) {
	return func(s *Snapshot) {
		if n.Name == "" {
			n.Name, n.Type = "www.example.", "A"
		}
		if n.Why == "" {
			n.Why = "recently used"
		}
		s.Names = append(s.Names, n)
	}
}

// bogus returns a nameserver that answers SERVFAIL, but resolves the name without validation.
func bogus() Direct {
	d := direct("SERVFAIL")
	d.UDP.EDE = []control.ExtendedError{{Code: 6, Name: "DNSSEC Bogus"}}
	d.CD = says("NOERROR")
	return d
}

// lossy returns a nameserver whose answer is lost over UDP, unless it is small.
func lossy() Direct {
	lost := Answer{Err: errSilent}
	small, tcp := says("NOERROR"), says("NOERROR")
	small.Truncated, tcp.Size = true, 900
	return Direct{Server: upstreamAddr, UDP: lost, DO: lost, Large: lost, Small: small, TCP: tcp}
}

// clusterForwarded forwards the cluster's names to a nameserver that answers the API's name with
// rcode.
func clusterForwarded(rcode string) func(*Snapshot) {
	return func(s *Snapshot) {
		s.API, s.Status.Cluster.Resolver = API{}, nil
		s.Status.Cluster.Servers, s.Status.Cluster.Source = []string{"10.0.0.3:53"}, "clusterDNS /etc/node-dns/node-dns.yaml:1"
		quick := says("NOERROR")
		s.Upstreams = append(s.Upstreams, Probe{Server: "10.0.0.3:53", Domains: []string{"cluster.local."}, UDP: quick, EDNS: quick, TCP: quick})
		asked(Name{Name: "kubernetes.default.svc.cluster.local.", Type: "A", Cluster: true, Answer: answered(rcode)})(s)
	}
}

// fails makes the upstream fail with err over UDP and TCP.
func fails(err error) func(*Snapshot) {
	return func(s *Snapshot) {
		a := Answer{Err: err}
		s.Upstreams = []Probe{{Server: upstreamAddr, Domains: []string{"."}, UDP: a, EDNS: a, TCP: a, Source: "upstreams /etc/node-dns/node-dns.yaml:1"}}
	}
}

// overTLS makes an upstream over TLS fail with err.
func overTLS(err error) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Upstreams = []Probe{{Server: "dns+tls://192.0.2.53#dns.example", Domains: []string{"."}, TLS: true, TCP: Answer{Err: err}, Source: "upstreams /etc/node-dns/node-dns.yaml:1"}}
	}
}

func api(err error) func(*Snapshot) {
	return func(s *Snapshot) {
		s.API.Err = err
		s.Status.Cluster.Resolver = &control.Resolver{Phase: "connecting", Error: err.Error()}
	}
}

// pods gives the node an interface of a network plugin.
func pods(prefix string) func(*Snapshot) {
	return func(s *Snapshot) {
		p := netip.MustParsePrefix(prefix)
		s.Host.State.Net.Addrs = append(s.Host.State.Net.Addrs, netstate.Addr{Addr: p.Addr(), Bits: p.Bits(), Interface: "cni0", Up: true})
		s.Status.Clients = control.Clients{AllowFrom: []string{"192.0.2.0/24"}, Networks: []string{"192.0.2.0/24"}}
		s.Host.State.Config.AllowFrom = nodeconfig.AllowFrom{Networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	}
}

// intercepting sets the interception of 10.96.0.10, or of these addresses.
func intercepting(addrs ...control.Intercepted) func(*Snapshot) {
	return func(s *Snapshot) {
		i := &control.Interception{Wanted: []string{"10.96.0.10"}, Addresses: addrs, Owned: true}
		if len(addrs) > 0 {
			i.Wanted = []string{addrs[0].Address}
		}
		s.Status.Interception = i
		s.Status.Cluster.Resolver = &control.Resolver{}
	}
}

// failingMinute returns a minute in which one route and one client have nearly all failures.
func failingMinute(servFail uint64) control.LastMinute {
	return control.LastMinute{
		Responses: 200, ServFail: servFail, Recorded: 41,
		Servers: []control.ServerMinute{{Address: "10.0.0.5", Queries: 80, Failures: 80}},
		Routes:  []control.RouteMinute{{Domain: "corp.example.", Queries: 80, Unanswered: 80, ServFail: 40}, {Domain: ".", Queries: 90, ServFail: 1}},
		Clients: []control.ClientMinute{{Client: "10.128.0.9", Pod: "shop/web-0", ServFail: 38}, {Client: "10.128.0.10", ServFail: 3}},
		Reasons: []control.ReasonMinute{{Reason: "failed recently", ServFail: 30}, {Reason: "no response: 10.0.0.5", ServFail: 10}},
	}
}

func lastMinute(l control.LastMinute, stranger, pod string) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Status.LastMinute = &l
		s.Status.Queries.Limits.Stranger, s.Status.Queries.Limits.StrangerPod = stranger, pod
		s.Status.Clients = control.Clients{AllowFrom: []string{"local"}, Networks: []string{"10.0.0.0/16"}}
	}
}

func fromPod(udp, tcp Answer) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Status.Clients = control.Clients{AllowFrom: []string{"local"}, Networks: []string{"10.0.0.0/16"}}
		s.Pods = []LocalProbe{{Namespace: "/run/netns/cni-1", Client: netip.MustParseAddr("10.128.0.5"), Server: netip.MustParseAddrPort("10.0.0.7:53"), UDP: udp, TCP: tcp}}
	}
}

// fromPods has a pod for each answer, which it gets at an intercepted address over UDP and TCP.
func fromPods(mode string, answers ...Answer) func(*Snapshot) {
	return func(s *Snapshot) {
		intercepting(control.Intercepted{Address: "10.96.0.10", On: true, Mode: mode})(s)
		s.Status.Cluster.Resolver.Phase = "synced"
		for i, answer := range answers {
			s.Pods = append(s.Pods, LocalProbe{
				Namespace: fmt.Sprintf("/run/netns/cni-%d", i+1), Client: netip.AddrFrom4([4]byte{10, 128, 0, byte(i + 1)}),
				Server: netip.MustParseAddrPort("10.96.0.10:53"), Mode: mode, UDP: answer, TCP: answer,
			})
		}
	}
}

func fromHost(udp, tcp Answer) func(*Snapshot) {
	return func(s *Snapshot) {
		s.FromHost = LocalProbe{Server: netip.MustParseAddrPort("10.0.0.7:53"), UDP: udp, TCP: tcp}
	}
}

// clients makes a pod and this host get this answer for a name that the daemon resolves.
func clients(a Asked) func(*Snapshot) {
	return func(s *Snapshot) {
		asked(Name{Answer: answered("NOERROR"), Direct: []Direct{direct("NOERROR")}})(s)
		fromPod(says("NOERROR"), says("NOERROR"))(s)
		fromHost(says("NOERROR"), says("NOERROR"))(s)
		good := Asked{Name: "www.example.", Type: "A", Direct: direct("NOERROR")}
		good.Small.Truncated = true // repeated over TCP
		a.Name, a.Type = good.Name, good.Type
		s.Pods[0].Names, s.FromHost.Names = []Asked{a}, []Asked{good}
	}
}

// smaller is the printed command that sets a smaller answer size.
const smaller = `grep -qs '^edns-packet-max=' /etc/dnsmasq.conf || printf '\nedns-packet-max=512\n' >>/etc/dnsmasq.conf`

// anothers is the error for a certificate with another name.
var anothers = x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"dns.site.example"}}, Host: "dns.example"}

// askedRows are the rows of the checks that judge queries and answers.
var askedRows = []checkRow{
	{"reports", "none", nil, "", ""},
	{"reports", "is not ready", func(s *Snapshot) {
		s.Status.Ready, s.Status.Problems = false, []string{"not listening on 10.0.0.7:53: address in use"}
	}, Fail, "is not ready|not listening on 10.0.0.7:53"},
	{"reports", "complains", func(s *Snapshot) { s.Status.Problems = []string{"asked in vain\nfor files"} }, Fail, "asked in vain; for files"},
	{"reports", "complains of what checks judge", func(s *Snapshot) {
		s.Status.Problems = []string{"the host's files are not up to date: origin-dns-dispatcher plan shows why", "the Kubernetes API is not watched (stale): x"}
	}, "", ""},
	{"reports", "complains of faults in the configuration", func(s *Snapshot) {
		first, second := &nodeconfig.Fault{File: "/a", Line: 1, Column: 1, Expected: "x", Got: "y"}, &nodeconfig.Fault{File: "/a", Line: 2, Column: 1, Expected: "x", Got: "y"}
		s.Host.State.ConfigErr = errors.Join(first, second)
		s.Status.Problems = []string{first.Error() + "\n" + second.Error()}
	}, "", ""},
	// A full disk, an immutable file and a taken port were reported as two or three failures each,
	// with the cause last.
	{"reports", "follow from a cause", func(s *Snapshot) {
		s.Storage[0].Free, s.Status.Problems = 4096, []string{"asked in vain for files"}
	}, Warn, "may be caused by the problem above"},

	{"files", "are as they should be", nil, "", ""},
	{"files", "are to be written", func(s *Snapshot) { s.Status.ResolvConf.Pending = []string{"/etc/resolv.conf"} }, Fail, "not up to date: /etc/resolv.conf"},
	{"files", "cannot be written", func(s *Snapshot) {
		s.Host.Fixed, s.Status.ResolvConf.Pending = true, []string{"/etc/resolv.conf"}
	}, Warn, "may be caused by the problem above"},

	{"units", "NetworkManager is stopped", func(s *Snapshot) {
		s.Units[managerUnit] = migrate.Unit{Load: "loaded", Active: "inactive", File: "enabled"}
	}, Fail, "NetworkManager.service is enabled but not running (inactive)|systemctl start NetworkManager"},
	{"units", "NetworkManager is not used", func(s *Snapshot) {
		s.Units[managerUnit] = migrate.Unit{Load: "loaded", Active: "inactive", File: "disabled"}
	}, OK, "node-dns.service active/enabled"},

	{"upstreams", "is stopped by a filter of this node", fails(unix.EPERM), Fail, "a packet filter on this node drops the queries|nft -a list ruleset"},
	{"upstreams", "is stopped by a filter of this node that is known", func(s *Snapshot) {
		fails(unix.EPERM)(s)
		s.Host.Filter.Rules = &firewall.Ruleset{Outputs: []firewall.Chain{{Family: firewall.Inet, Table: "own", Name: "out"}, {Family: firewall.IPv4, Table: "filter", Name: "OUTPUT"}}}
	}, Fail, "nft 'insert rule inet own out meta l4proto { tcp, udp } th dport 53 accept' && iptables -I OUTPUT -p udp --dport 53 -j ACCEPT && iptables -I OUTPUT -p tcp --dport 53 -j ACCEPT; then remove the drop rule"},
	{"upstreams", "host without a nameserver", fails(unix.ECONNREFUSED), Fail, "no nameserver listens there|start the nameserver at 192.0.2.53; or configure another one in upstreams /etc/node-dns/node-dns.yaml:1"},
	// The kernel of that host limits how often it reports this over UDP (icmp_ratelimit).
	{"upstreams", "host without a nameserver, from DHCP", func(s *Snapshot) {
		fails(unix.ECONNREFUSED)(s)
		s.Upstreams[0].Source = "NetworkManager eth0 (eth0)"
	}, Fail, "or give the connection another one: nmcli connection modify NAME ipv4.dns ADDRESS ipv4.ignore-auto-dns yes && nmcli device reapply DEVICE"},
	{"upstreams", "has nobody who listens, which TCP alone shows", func(s *Snapshot) {
		fails(errSilent)(s)
		s.Upstreams[0].TCP.Err = unix.ECONNREFUSED
	}, Fail, "does not answer over UDP: no answer within 2s; TCP: connection refused: the host is up, but no nameserver listens there"},
	{"upstreams", "has no route", fails(unix.EHOSTUNREACH), Fail, "correct the route to 192.0.2.53: ip route get ADDRESS"},
	{"upstreams", "two are down for one cause", func(s *Snapshot) {
		fails(errSilent)(s)
		other := s.Upstreams[0]
		other.UDP, other.EDNS, other.TCP = says("NOERROR"), Answer{Err: unix.EPERM}, Answer{Err: unix.EPERM}
		other.Server, other.UDP = "192.0.2.54:53", Answer{Err: unix.EPERM}
		third := other
		third.Server = "192.0.2.55:53"
		s.Upstreams = append(s.Upstreams, other, third)
	}, Fail, "upstream 192.0.2.54:53 (and upstream 192.0.2.55:53) does not answer over UDP: operation not permitted"},
	{"upstreams", "has a certificate that has ended", overTLS(x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{NotBefore: epoch.AddDate(-1, 0, 0), NotAfter: epoch}}), Fail, "a TLS certificate that is not valid now: from 2025-03-01T12:00:00Z to 2026-03-01T12:00:00Z|renew the certificate"},
	{"upstreams", "has another's certificate", func(s *Snapshot) {
		overTLS(anothers)(s)
		s.Upstreams[0].Proven = "dns.site.example"
	}, Fail, "a TLS certificate for dns.site.example, not for dns.example|correct upstreams /etc/node-dns/node-dns.yaml:1: dns+tls://192.0.2.53#dns.site.example"},
	// The name of a self-signed certificate was printed as the entry to use. Whoever intercepts the
	// connection can choose it.
	{"upstreams", "has a certificate of its own making", overTLS(anothers), Fail, "not for dns.example\nrenew the certificate at that nameserver"},
	{"upstreams", "has an unknown authority's certificate", overTLS(x509.UnknownAuthorityError{}), Fail, "from a CA that this node does not trust|update-ca-trust"},
	{"upstreams", "finds all bogus", asked(Name{Route: ".", Answer: answered("SERVFAIL"), Direct: []Direct{bogus()}}), Fail, "because DNSSEC validation fails|www.example. A: DNSSEC Bogus|the clock and the trust anchor"},
	{"upstreams", "fails for names that clients ask for, and not for its own domain", asked(Name{Why: "failed recently", Answer: answered("SERVFAIL"), Direct: []Direct{direct("SERVFAIL")}}), OK, "answers over UDP"},
	{"upstreams", "fails for all names", func(s *Snapshot) {
		s.Upstreams[0].EDNS = says("SERVFAIL")
		asked(Name{Why: "failed recently", Answer: answered("SERVFAIL"), Direct: []Direct{direct("SERVFAIL")}})(s)
	}, Fail, "answers SERVFAIL for every name|www.example. A|see the log of that nameserver"},
	{"upstreams", "fails for all names, as another does not", func(s *Snapshot) {
		other := s.Upstreams[0]
		other.Server = "192.0.2.54:53"
		s.Upstreams[0].EDNS = says("SERVFAIL")
		s.Upstreams = append(s.Upstreams, other)
		good := direct("NOERROR")
		good.Server = other.Server
		asked(Name{Answer: answered("NOERROR"), Direct: []Direct{direct("SERVFAIL"), good}})(s)
	}, Warn, "other nameservers answer instead"},
	{"upstreams", "finds one name bogus", func(s *Snapshot) {
		asked(Name{Route: ".", Answer: answered("SERVFAIL"), Direct: []Direct{bogus()}})(s)
		asked(Name{Name: "good.example.", Type: "A", Answer: answered("NOERROR"), Direct: []Direct{direct("NOERROR")}})(s)
	}, OK, "answers over UDP"},
	{"upstreams", "finds one name bogus, and another does not exist", func(s *Snapshot) {
		asked(Name{Route: ".", Answer: answered("SERVFAIL"), Direct: []Direct{bogus()}})(s)
		asked(Name{Name: "node.", Type: "A", Answer: answered("NXDOMAIN"), Direct: []Direct{direct("NXDOMAIN")}})(s)
	}, OK, "answers over UDP"},
	{"upstreams", "sends answers that are lost for their size", asked(Name{Answer: answered("SERVFAIL"), Direct: []Direct{lossy()}}), Fail, "www.example. A (900 bytes) arrives only over TCP|" + smaller + " makes node-dns request smaller answers"},
	// If the command was printed again, or with another size, it made dnsmasq's file invalid.
	{"upstreams", "sends answers that are lost for their size, which is set", func(s *Snapshot) {
		s.Host.Dnsmasq.Numbers = map[string]int{"edns-packet-max": 1232}
		asked(Name{Answer: answered("SERVFAIL"), Direct: []Direct{lossy()}})(s)
	}, Fail, "edns-packet-max=512 instead of 1232 in dnsmasq's files (grep -r edns-packet-max /etc/dnsmasq.conf /etc/dnsmasq.d)"},
	{"upstreams", "sends answers that are lost for their size, which is the smallest", func(s *Snapshot) {
		s.Host.Dnsmasq.Numbers = map[string]int{"edns-packet-max": 512}
		asked(Name{Answer: answered("SERVFAIL"), Direct: []Direct{lossy()}})(s)
	}, Fail, "arrives only over TCP\nallow datagrams and fragments"},
	{"upstreams", "sends answers that are lost for their size, and asked for over TCP", asked(Name{Answer: answered("NOERROR"), Direct: []Direct{lossy()}}), Warn, "(900 bytes) arrives only over TCP"},

	{"cluster", "is forwarded, and resolves", clusterForwarded("NOERROR"), OK, "which resolves kubernetes.default.svc.cluster.local."},
	{"cluster", "is forwarded to another nameserver", clusterForwarded("NXDOMAIN"), Fail, "10.0.0.3:53, which gets queries for cluster.local., is not the cluster's DNS|clusterDNS /etc/node-dns/node-dns.yaml:1|kubectl get service -A"},
	{"cluster", "is forwarded to one that fails", clusterForwarded("SERVFAIL"), Fail, "answers SERVFAIL for kubernetes.default"},
	{"cluster", "is forwarded to one that is silent", func(s *Snapshot) {
		clusterForwarded("SERVFAIL")(s)
		silent := Answer{Err: errSilent}
		s.Upstreams[1].UDP, s.Upstreams[1].EDNS, s.Upstreams[1].TCP = silent, silent, silent
	}, "", ""},
	{"cluster", "the API refuses connections", api(fmt.Errorf("dial: %w", unix.ECONNREFUSED)), Fail, "this node cannot query the Kubernetes API|start the API server: the host of https://10.0.0.1:6443 is up|SERVFAIL"},
	{"cluster", "the certificate has expired, and the API says so", func(s *Snapshot) {
		api(errors.New("the server does not accept"))(s)
		s.API.NotAfter = epoch.Add(-time.Hour)
	}, Fail, "expired at 2026-03-01T11:00:00Z"},

	{"interception", "is off", nil, "", ""},
	{"interception", "works", intercepting(control.Intercepted{Address: "10.96.0.10", On: true}), OK, "pods' queries to 10.96.0.10 come to this node"},
	{"interception", "the helper does not run", func(s *Snapshot) {
		intercepting()(s)
		s.Status.Interception.Why = "node-dns-intercept.service does not run"
	}, Warn, "do not come to this node: node-dns-intercept.service does not run|systemctl restart node-dns-intercept.service"},
	{"interception", "Cilium's socket load balancer is faster", func(s *Snapshot) {
		intercepting(control.Intercepted{Address: "10.96.0.10", Why: "another nameserver answers at 10.96.0.10: CoreDNS-1.12.1"})(s)
		s.Host.State.Net.Addrs = append(s.Host.State.Net.Addrs, netstate.Addr{Addr: netip.MustParseAddr("10.1.2.7"), Interface: "cilium_host", Bits: 32, Up: true})
	}, Warn, "another nameserver answers at 10.96.0.10: CoreDNS-1.12.1|Cilium translates the addresses of Services, so that the queries cannot be intercepted: remove intercept|--set cilium.enabled=true|kind: CiliumLocalRedirectPolicy"},
	// The helper succeeds, because OVN-Kubernetes translates only the packets of pods.
	{"interception", "OVN-Kubernetes translates pods' packets", func(s *Snapshot) {
		intercepting()(s)
		s.Status.Interception.Why = "OVN-Kubernetes translates the address in pods' packets before this host's rules see them"
		s.Host.State.Net.Addrs = append(s.Host.State.Net.Addrs, netstate.Addr{Addr: netip.MustParseAddr("10.128.0.2"), Interface: "ovn-k8s-mp0", Bits: 23, Up: true})
	}, Warn, "pods' queries to 10.96.0.10 do not come to this node: OVN-Kubernetes translates|remove intercept from /etc/node-dns/node-dns.yaml. Give pods this node's address instead (clusterDNS of the kubelet)"},
	// A network that nothing else shows, such as Calico's eBPF data plane.
	{"interception", "the cluster's network translates pods' packets", func(s *Snapshot) {
		fromPods("local", says("NOERROR"), says("NOERROR"))(s)
		for i := range s.Pods {
			s.Pods[i].IsOther = true
		}
	}, Warn, "pods' queries to 10.96.0.10 do not come to this node, but this host's do: another nameserver answers pods|if the cluster's network replaces kube-proxy, remove intercept|queried from 10.128.0.1 in"},
	{"interception", "Cilium translates pods' packets beside kube-proxy", func(s *Snapshot) {
		fromPods("local", says("NOERROR"))(s)
		s.Pods[0].IsOther = true
		s.Host.State.Net.Addrs = append(s.Host.State.Net.Addrs, netstate.Addr{Addr: netip.MustParseAddr("10.1.2.7"), Interface: "cilium_host", Bits: 32, Up: true})
	}, Warn, "but this host's do|remove intercept|--set cilium.enabled=true"},
	{"interception", "Cilium does not redirect", func(s *Snapshot) {
		intercepting(control.Intercepted{Address: "10.96.0.10", Why: "another nameserver answers at 10.96.0.10: CoreDNS-1.12.1"})(s)
		s.Status.Interception.Cilium = true
	}, Warn, "another nameserver answers at 10.96.0.10: CoreDNS-1.12.1|set localRedirectPolicies.enabled|kind: CiliumLocalRedirectPolicy"},
	{"interception", "Cilium was not checked", func(s *Snapshot) {
		intercepting(control.Intercepted{Address: "10.96.0.10", Why: "not checked yet"})(s)
		s.Status.Interception.Cilium = true
	}, Warn, "not checked yet|wait a minute, then run node-dns doctor again"},
	{"interception", "Cilium has no Service to redirect", func(s *Snapshot) {
		intercepting()(s)
		s.Status.Interception.Cilium, s.Status.Interception.Wanted = true, nil
	}, Warn, "pods' queries to the cluster's DNS Service do not come to this node: the Kubernetes API has no DNS Service with a known name|set cilium.service"},
	{"interception", "Cilium must wait for the cluster's names", func(s *Snapshot) {
		intercepting()(s)
		s.Status.Interception.Cilium, s.Status.Interception.Wanted = true, nil
		s.Status.Interception.Why = "the cluster's names are not known yet"
		s.Status.Cluster.Resolver = &control.Resolver{Error: "timeout"}
	}, Warn, "the cluster's names are not known yet|see the check cluster"},
	{"interception", "Cilium redirects", func(s *Snapshot) {
		intercepting(control.Intercepted{Address: "10.96.0.10", On: true})(s)
		s.Status.Interception.Cilium = true
	}, OK, "pods' queries to 10.96.0.10 come to this node"},
	{"interception", "NodeLocal DNSCache has the address", func(s *Snapshot) {
		intercepting(control.Intercepted{Address: "169.254.20.10", On: true, Mode: "standby"})(s)
		s.Host.Holders = append(s.Host.Holders, migrate.Holder{Addr: netip.MustParseAddrPort("169.254.20.10:53"), Name: "node-cache"})
	}, Warn, "NodeLocal DNSCache answers pods' queries to 169.254.20.10 until it leaves this node|node-dns migrate prints"},
	{"interception", "NodeLocal DNSCache was killed", func(s *Snapshot) {
		intercepting(control.Intercepted{Address: "169.254.20.10", On: true, Mode: "standby"})(s)
		s.Host.Root = true
	}, Warn, "no program answers at 169.254.20.10, which the link nodelocaldns has|node-dns migrate --apply"},
	{"interception", "a firewall drops the queries", intercepting(control.Intercepted{Address: "10.96.0.10", Why: "a packet filter of this host drops queries of pods"}), Warn, "drops queries of pods|let pods query this host (see the check input-filter"},
	{"interception", "a firewall drops the responses", intercepting(control.Intercepted{Address: "10.96.0.10", Why: "a packet filter of this host drops responses to pods"}), Warn, "drops responses to pods|let packets from port 53 of this host out"},
	{"interception", "of the host's own address", intercepting(control.Intercepted{Address: "10.0.0.5", Why: "the link eth0 of this host has it"}), Warn, "remove the address from intercept"},
	{"interception", "on an old kernel", func(s *Snapshot) {
		intercepting(control.Intercepted{Address: "10.96.0.10", On: true})(s)
		s.Status.Interception.Owned = false
	}, Warn, "if node-dns-intercept is killed|Linux 5.12"},

	{"clients", "no pods are known", nil, "", ""},
	{"clients", "allowFrom leaves out pods", pods("10.128.0.1/24"), Fail, "allowFrom (default) does not include 10.128.0.0/24|pods on cni0 have addresses in 10.128.0.0/24|allowFrom: [192.0.2.0/24, 10.128.0.0/24]"},
	{"clients", "allowFrom leaves out pods of IPv6", pods("fd00::1/64"), Fail, `allowFrom: [192.0.2.0/24, "fd00::/64"]`},
	{"clients", "a pod is refused", lastMinute(control.LastMinute{Strangers: 7}, "10.128.0.9", "shop/web-0"), Fail, "queries refused in the last minute: 7, for example from 10.128.0.9, pod shop/web-0|allowFrom: [local, 10.128.0.9/32]"},
	{"clients", "another is refused", lastMinute(control.LastMinute{Strangers: 7}, "198.51.100.9", ""), Warn, "7, for example from 198.51.100.9: not in allowFrom"},
	// Doctor failed and printed a value of allowFrom that opened the resolver to the LAN.
	{"clients", "one on a second LAN is refused", func(s *Snapshot) {
		s.Host.State.Net.Addrs = append(s.Host.State.Net.Addrs, netstate.Addr{Addr: netip.MustParseAddr("203.0.113.7"), Bits: 24, Interface: "eth1", Up: true})
		lastMinute(control.LastMinute{Strangers: 1}, "203.0.113.66", "")(s)
	}, Warn, "1, for example from 203.0.113.66: not in allowFrom|if it is a client, add it to allowFrom"},
	{"clients", "one of podCIDRs is refused", func(s *Snapshot) {
		s.Host.State.Config.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.128.0.0/14")}
		lastMinute(control.LastMinute{Strangers: 7}, "10.128.0.9", "")(s)
	}, Fail, "allowFrom: [local, 10.128.0.0/14]"},
	{"clients", "one was refused long ago", lastMinute(control.LastMinute{}, "10.128.0.9", "shop/web-0"), "", ""},
	{"clients", "one may ask by now", lastMinute(control.LastMinute{Strangers: 7}, "10.0.5.9", ""), "", ""},
	{"clients", "this host is answered", fromHost(says("NOERROR"), says("NOERROR")), "", ""},
	{"clients", "this host gets no answer", fromHost(Answer{Err: errSilent}, Answer{Err: errSilent}), Fail, "this host gets no answer from 10.0.0.7:53: no answer within 2s|allow port 53 from this host to 10.0.0.7"},
	{"clients", "this host gets no answer over UDP", fromHost(Answer{Err: errSilent}, says("NOERROR")), Fail, "this host gets no answer from 10.0.0.7:53 over UDP"},
	{"clients", "pods are answered", fromPod(says("NXDOMAIN"), says("NXDOMAIN")), OK, "pods get answers over UDP and TCP (queried from 10.128.0.5)"},
	{"clients", "pods are refused", fromPod(says("REFUSED"), says("REFUSED")), Fail, "does not include 10.128.0.5/32|refused a query (REFUSED) from 10.128.0.5, the address of a pod in /run/netns/cni-1"},
	{"clients", "pods get no answer", fromPod(Answer{Err: errSilent}, Answer{Err: errSilent}), Fail, "pods get no answer from 10.0.0.7:53: no answer within 2s|allow port 53 from 10.128.0.5 to 10.0.0.7"},
	{"clients", "pods get no answer, as a filter drops their questions", func(s *Snapshot) {
		filteredBy(firewall.State{Firewalld: public}, "cni0 10.128.0.1/24")(s)
		fromPod(Answer{Err: errSilent}, Answer{Err: errSilent})(s)
		s.Status.Clients.AllowFrom = []string{"all"}
	}, "", ""},
	// Of the packets, the share of one pod that is denied is too small for the helper to notice.
	{"clients", "a policy denies one pod among many", fromPods("local", says("NOERROR"), says("NOERROR"), Answer{Err: errSilent}, says("NOERROR")), Warn, "1 of 4 pods get no answer from 10.96.0.10:53: no answer within 2s|allow port 53 to 10.96.0.10 in the network policies of 10.128.0.3, unless|(docs/howto/intercept.md)|queried from 10.128.0.3 in /run/netns/cni-3"},
	{"clients", "a policy denies a named pod", func(s *Snapshot) {
		fromPods("local", says("NOERROR"), Answer{Err: errSilent})(s)
		s.Pods[1].Pod = "shop/web-0"
	}, Warn, "1 of 2 pods get no answer|in the network policies of shop/web-0, unless|queried from 10.128.0.2 in /run/netns/cni-2, pod shop/web-0"},
	{"clients", "a policy denies one pod the translated address", fromPods("translated", says("NOERROR"), Answer{Err: errSilent}), Warn, "1 of 2 pods get no answer|allow port 53 to this node's address in"},
	{"clients", "all pods are denied the intercepted address", fromPods("local", Answer{Err: errSilent}, Answer{Err: errSilent}), Fail, "pods get no answer from 10.96.0.10:53|allow port 53 from 10.128.0.1, 10.128.0.2 to 10.96.0.10 in this node's firewall"},
	{"clients", "many pods are answered", fromPods("local", slices.Repeat([]Answer{says("NOERROR")}, 7)...), OK, "(queried from 10.128.0.1, 10.128.0.2, 10.128.0.3, 10.128.0.4, and 3 more)"},
	{"clients", "a filter drops one pod's questions", func(s *Snapshot) {
		filteredBy(firewall.State{Firewalld: public}, "cni0 10.128.0.1/24")(s)
		fromPods("local", says("NOERROR"), Answer{Err: errSilent})(s)
		s.Status.Clients.AllowFrom = []string{"all"}
	}, Warn, "1 of 2 pods get no answer"},
	{"clients", "pods get no answer over TCP", fromPod(says("NOERROR"), Answer{Err: errSilent}), Fail, "pods get no answer from 10.0.0.7:53 over TCP"},

	{"cache", "agrees", asked(Name{Answer: answered("NOERROR"), Direct: []Direct{direct("NOERROR")}}), "", ""},
	{"cache", "has an old NXDOMAIN", func(s *Snapshot) {
		old := answered("NXDOMAIN")
		old.By = control.By{Cached: true, Age: 2 * time.Second}
		asked(Name{Answer: old, Direct: []Direct{direct("NOERROR")}})(s)
	}, Fail, "www.example. A is NXDOMAIN in the cache (age 2s), but every nameserver for it has the name|node-dns cache flush www.example."},
	// A client chooses these names. The printed command ran "reboot" when an admin pasted it.
	{"cache", "has an old NXDOMAIN of a name with shell syntax", func(s *Snapshot) {
		old := answered("NXDOMAIN")
		old.By = control.By{Cached: true, Age: 2 * time.Second}
		asked(Name{Name: "flip1&reboot&.evil.example.", Type: "A", Answer: old, Direct: []Direct{direct("NOERROR")}})(s)
	}, Fail, "node-dns cache flush 'flip1&reboot&.evil.example.'"},
	// With filter-AAAA every cached AAAA name was a failure that no flush fixed.
	{"cache", "has a name whose records filter-AAAA removes", func(s *Snapshot) {
		filtered := answered("NOERROR")
		filtered.Answer, filtered.By = nil, control.By{Cached: true, Age: 2 * time.Second}
		filtered.Errors = []control.ExtendedError{{Code: 17, Name: "Filtered"}}
		asked(Name{Name: "www.example.", Type: "AAAA", Answer: filtered, Direct: []Direct{direct("NOERROR")}})(s)
	}, "", ""},
	{"cache", "has a name that bogus-nxdomain blocks", func(s *Snapshot) {
		blocked := answered("NXDOMAIN")
		blocked.By = control.By{Cached: true, Age: 2 * time.Second}
		blocked.Errors = []control.ExtendedError{{Code: 15, Name: "Blocked"}}
		asked(Name{Answer: blocked, Direct: []Direct{direct("NOERROR")}})(s)
	}, "", ""},
	{"cache", "has an NXDOMAIN that one nameserver confirms", func(s *Snapshot) {
		old := answered("NXDOMAIN")
		old.By = control.By{Cached: true, Age: 2 * time.Second}
		asked(Name{Answer: old, Direct: []Direct{direct("NOERROR"), direct("NXDOMAIN")}})(s)
	}, "", ""},

	{"names", "none", nil, "", ""},
	{"names", "are answered", asked(Name{Answer: answered("NOERROR"), Direct: []Direct{direct("NOERROR")}}), OK, "node-dns answers 1 of 1 name"},
	{"names", "the daemon does not answer", asked(Name{Err: errors.New("gone")}), Fail, "www.example. A (recently used): gone"},
	{"names", "SERVFAIL although a nameserver answers", asked(Name{Answer: answered("SERVFAIL"), Direct: []Direct{direct("NOERROR")}}), Fail, "although a nameserver answers it|node-dns cache flush www.example.|192.0.2.53:53 UDP, DO, 512, 4096 DO, TCP: NOERROR"},
	{"names", "one of shell syntax is SERVFAIL, and a nameserver has it", asked(Name{Name: "$(reboot).evil.example.", Type: "A", Answer: answered("SERVFAIL"), Direct: []Direct{direct("NOERROR")}}), Fail, "node-dns cache flush '$(reboot).evil.example.'; if it fails again, node-dns monitor --name '$(reboot).evil.example.' shows why"},
	{"names", "one has an address of ignore-address", func(s *Snapshot) {
		ignored := answered("SERVFAIL")
		ignored.Errors = []control.ExtendedError{{Code: 22, Name: "No Reachable Authority", Text: "no response from 192.0.2.53:53 (the response has an ignored address (ignore-address))"}}
		asked(Name{Answer: ignored, Direct: []Direct{direct("NOERROR")}})(s)
	}, Warn, "remove ignore-address from dnsmasq's files"},
	// Each node that queried a domain whose own nameservers fail was reported as broken.
	{"names", "one failed recently, and fails everywhere", func(s *Snapshot) {
		asked(Name{Why: "failed recently", Answer: answered("SERVFAIL"), Direct: []Direct{direct("SERVFAIL")}})(s)
		asked(Name{Name: "good.example.", Type: "A", Answer: answered("NOERROR"), Direct: []Direct{direct("NOERROR")}})(s)
	}, Warn, "www.example. A (failed recently): SERVFAIL|the nameservers of this domain are at fault"},
	{"names", "several failed recently", func(s *Snapshot) {
		for _, name := range []string{"a.example.", "b.example.", "c.example."} {
			asked(Name{Name: name, Type: "A", Why: "failed recently", Answer: answered("SERVFAIL"), Direct: []Direct{direct("NXDOMAIN")}})(s)
		}
	}, Fail, "3 names fail to resolve through node-dns|a.example. A (failed recently): SERVFAIL|c.example. A"},
	{"names", "one is refused, which is a warning elsewhere", asked(Name{Why: "failed recently", Answer: answered("SERVFAIL"), Direct: []Direct{direct("REFUSED")}}), OK, "node-dns answers 0 of 1"},
	{"names", "clients get the same answers", clients(Asked{Direct: direct("NOERROR")}), OK, "node-dns answers 1 of 1 name"},
	{"names", "large answers do not reach pods", clients(Asked{Direct: lossy()}), Warn, "clients do not get every answer that node-dns has|" +
		"www.example. A, queried from 10.128.0.5 in /run/netns/cni-1: 192.0.2.53:53 UDP, DO, 4096 DO: no answer within 2s; 512: truncated; TCP: NOERROR; node-dns has NOERROR|allow UDP and TCP port 53, datagrams of 1232 bytes"},
	{"names", "pods get no answer for one name", clients(Asked{Direct: direct("SERVFAIL")}), Fail, "UDP, DO, 512, 4096 DO, TCP: SERVFAIL; node-dns has NOERROR|node-dns monitor --name www.example."},
	{"names", "doctor's queries reach a limit", func(s *Snapshot) {
		limited := Asked{Direct: direct("REFUSED")}
		for _, w := range limited.ways() {
			w.answer.EDE = []control.ExtendedError{{Code: 0, Name: "Other Error", Text: "too many queries per second"}}
		}
		clients(limited)(s)
	}, OK, "node-dns answers 1 of 1 name"},
	{"names", "one is slow, and clients do not wait", func(s *Snapshot) {
		clients(Asked{Direct: lossy()})(s)
		s.Names[0].Answer.Took = 2 * time.Second
	}, OK, "node-dns answers 1 of 1 name"},
	{"names", "a cluster name does not exist, and node-dns follows the search list", func(s *Snapshot) {
		clients(Asked{Direct: direct("NOERROR")})(s)
		s.Names[0] = Name{Name: "www.example.shop.svc.cluster.local.", Type: "A", Why: "recently used", Answer: answered("NXDOMAIN")}
		s.Pods[0].Names[0].Name = s.Names[0].Name
	}, OK, "node-dns answers 1 of 1 name"},
	{"names", "the nameservers do not agree", asked(Name{Answer: answered("NOERROR"), Direct: []Direct{direct("NOERROR"), direct("NXDOMAIN")}}), Warn, "the nameservers disagree about www.example. A|routes: in /etc/node-dns/node-dns.yaml"},
	{"names", "the given one resolves", asked(Name{Given: true, Why: "given", Answer: answered("NOERROR"), Direct: []Direct{direct("NOERROR")}}), OK, "www.example. A (given): NOERROR|www.example. 60 IN A 192.0.2.1|4096 DO, TCP: NOERROR"},
	{"names", "the given one fails", func(s *Snapshot) {
		asked(Name{Name: "good.example.", Type: "A", Answer: answered("NOERROR"), Direct: []Direct{direct("NOERROR")}})(s)
		failed := answered("SERVFAIL")
		failed.Errors = []control.ExtendedError{{Name: "No Reachable Authority", Text: "no response"}}
		asked(Name{Given: true, Why: "given", Answer: failed, Direct: []Direct{direct("SERVFAIL")}})(s)
	}, Fail, "www.example. A (given): SERVFAIL (No Reachable Authority: no response)"},

	{"recent", "is not known", nil, "", ""},
	{"recent", "has no response", lastMinute(control.LastMinute{}, "", ""), "", ""},
	{"recent", "is well", lastMinute(control.LastMinute{Responses: 1000, ServFail: 4}, "", ""), OK, "4 SERVFAIL and 0 REFUSED in 1000 responses"},
	{"recent", "has many failures", lastMinute(control.LastMinute{
		Responses: 100, ServFail: 20, Limited: 3, Servers: []control.ServerMinute{{Address: upstreamAddr, Queries: 60, Failures: 40, Refusals: 2}},
	}, "", ""), Warn, "20 SERVFAIL|192.0.2.53:53: 60 queries, 40 without a response, 2 SERVFAIL|3 queries hit a limit"},
	{"recent", "has failures of one route and one client", func(s *Snapshot) {
		lastMinute(failingMinute(41), "", "")(s)
		s.Status.Routes = append(s.Status.Routes, control.Route{Domain: "corp.example.", Servers: []control.Server{{Address: "10.0.0.5"}, {Address: "10.0.0.6"}}})
	}, Warn, "clients got 41 SERVFAIL and 0 REFUSED in 200 responses in the last minute: 40 on route corp.example. (10.0.0.5 does not answer); 38 to 10.128.0.9, pod shop/web-0|" +
		"route corp.example.: clients got 40 SERVFAIL, 0 REFUSED; 80 of 80 queries to its servers had no answer|client 10.128.0.9, pod shop/web-0: 38 SERVFAIL, 0 REFUSED|" +
		`reason "failed recently": 30 SERVFAIL, 0 REFUSED|node-dns monitor --rcode SERVFAIL --client 10.128.0.9 shows which names`},
	{"recent", "has more failures than are recorded", lastMinute(failingMinute(150), "", ""), Warn, "150 SERVFAIL and 0 REFUSED in 200 responses in the last minute: of 41 recorded, 40 on route corp.example.; 38 to 10.128.0.9"},
	{"recent", "has failures of many routes and clients", func(s *Snapshot) {
		l := failingMinute(41)
		l.Routes[0].ServFail, l.Clients[0].ServFail = 20, 20
		lastMinute(l, "", "")(s)
	}, Warn, "clients got 41 SERVFAIL and 0 REFUSED in 200 responses in the last minute|node-dns monitor --rcode SERVFAIL shows"},
	{"recent", "has failures, and clients are hidden", func(s *Snapshot) {
		l := failingMinute(41)
		l.Clients, l.Reasons = nil, nil
		lastMinute(l, "", "")(s)
	}, Warn, "in the last minute: 40 on route corp.example.|node-dns monitor --rcode SERVFAIL shows"},
	{"recent", "has refusals that clients are told of", lastMinute(control.LastMinute{Responses: 100, Refused: 20, Strangers: 20}, "", ""), OK, "20 REFUSED"},
}

// TestSmallerCommand: the command appended the option to a last line without a newline.
func TestSmallerCommand(t *testing.T) {
	for had, want := range map[string]string{
		"-": "\nedns-packet-max=512\n", "": "\nedns-packet-max=512\n", "no-hosts\n": "no-hosts\n\nedns-packet-max=512\n",
		"no-hosts": "no-hosts\nedns-packet-max=512\n",
	} {
		path := filepath.Join(t.TempDir(), "dnsmasq.conf")
		if had != "-" { // the file exists
			if err := os.WriteFile(path, []byte(had), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if out, err := exec.CommandContext(t.Context(), "sh", "-ec", strings.ReplaceAll(smaller, "/etc/dnsmasq.conf", path)).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%q became %q, want %q: %v", had, got, want, err)
		}
	}
}

// TestOneFailure proves that a cause is reported as one failure, before its symptoms.
func TestOneFailure(t *testing.T) {
	for _, row := range askedRows {
		if row.level != Fail {
			continue
		}
		t.Run(row.check+" "+row.name, func(t *testing.T) {
			var failed []string
			for _, f := range Diagnose(well(t, row.change)).Findings {
				if f.Level == Fail {
					failed = append(failed, f.Check+": "+f.What)
				}
			}
			want := 1
			if row.name == "two are down for one cause" { // in addition to a third one with another cause
				want = 2
			}
			if len(failed) != want || !slices.ContainsFunc(failed, func(text string) bool { return strings.HasPrefix(text, row.check+": ") }) {
				t.Errorf("got failures %q", failed)
			}
		})
	}
}

// TestIsNear: a namespace belongs to a pod if this node reaches its address in the same way as
// pods. The LAN of a test and a VPN have namespaces too.
func TestIsNear(t *testing.T) {
	s := well(t, func(s *Snapshot) {
		onLink := func(network, name string) netstate.OnLink {
			return netstate.OnLink{Network: netip.MustParsePrefix(network), Interface: name}
		}
		s.Host.State.Net.Addrs = append(s.Host.State.Net.Addrs,
			netstate.Addr{Addr: netip.MustParseAddr("10.128.0.1"), Bits: 24, Interface: "cni0", Up: true},
			netstate.Addr{Addr: netip.MustParseAddr("192.0.2.7"), Bits: 24, Interface: "eth0", Up: true})
		s.Host.State.Net.OnLink = []netstate.OnLink{onLink("10.244.1.5/32", "cali1"), onLink("0.0.0.0/1", "tun0"), onLink("192.0.2.0/24", "eth0")}
		s.Host.State.Config.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
	})
	for addr, want := range map[string]bool{
		"10.128.0.9": true, "10.244.1.5": true, "10.244.1.6": false, "10.1.2.3": true, "192.0.2.9": false, "100.64.0.1": false,
	} {
		if got := s.isNear(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: got %v", addr, got)
		}
	}
}
