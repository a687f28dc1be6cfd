package clusterdns

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// clusterZones are the zones of the cluster in all tests.
var clusterZones = []dnsname.Name{dnsname.MustParse("cluster.local"), dnsname.MustParse("96.10.in-addr.arpa")}

// object returns a ConfigMap with alternating keys and values.
func object(name string, data ...string) Object {
	o := Object{Kind: "ConfigMap", Namespace: "kube-system", Name: name, Data: map[string]string{}}
	for pair := range slices.Chunk(data, 2) {
		o.Data[pair[0]] = pair[1]
	}
	return o
}

func coredns(text string) Object { return object("coredns", "Corefile", text) }

func operator(spec string) Object {
	return Object{Kind: "DNS", Name: "default", Spec: json.RawMessage(spec)}
}

// render formats a Settings, one line per element, with shortened places.
func render(s Settings) []string {
	short := strings.NewReplacer("ConfigMap kube-system/coredns Corefile", "Corefile", "ConfigMap kube-system/", "").Replace
	var lines []string
	for _, r := range s.Routes {
		target := nameserver.Join(r.Servers)
		if r.Local {
			target += "local"
		}
		if r.Pods {
			target += "pods"
		}
		if r.Barred {
			target += "barred"
		}
		lines = append(lines, short(fmt.Sprintf("%s: %s => %s", r.Where, r.Domain, target)))
	}
	for _, h := range s.Hosts {
		line := fmt.Sprintf("%s: %s %v", h.Where, h.Addr, h.Names)
		if h.TTL != Unset {
			line += fmt.Sprintf(" ttl %d", h.TTL)
		}
		if h.NoReverse {
			line += " no_reverse"
		}
		lines = append(lines, short(line))
	}
	for _, u := range s.Unfollowed {
		lines = append(lines, short(fmt.Sprintf("%s! %s", u.Where, u.Text)))
	}
	return lines
}

type row struct {
	name    string
	objects []Object
	want    []string
}

func run(t *testing.T, rows []row) {
	t.Helper()
	runWith(t, rows, false)
}

func runWith(t *testing.T, rows []row, mayLeave bool) {
	t.Helper()
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			got := Read(tt.objects, clusterZones, mayLeave)
			if diff := cmp.Diff(tt.want, render(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			reversed := slices.Clone(tt.objects)
			slices.Reverse(reversed)
			if again := Read(reversed, clusterZones, mayLeave); !reflect.DeepEqual(again, got) {
				t.Errorf("with the objects in reverse order: %v, want %v", render(again), render(got))
			}
		})
	}
}

const kubeadm = `.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
`

const eks = `.:53 {
    errors
    health {
        lameduck 5s
      }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
      pods insecure
      fallthrough in-addr.arpa ip6.arpa
    }
    prometheus :9153
    forward . /etc/resolv.conf
    cache 30
    loop
    reload
    loadbalance
}
`

const aks = `.:53 {
    errors
    ready
    health {
      lameduck 5s
    }
    kubernetes cluster.local in-addr.arpa ip6.arpa {
      pods insecure
      fallthrough in-addr.arpa ip6.arpa
      ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf
    cache 30
    loop
    reload
    loadbalance
    import custom/*.override
    template ANY ANY internal.cloudapp.net {
      match "^(?:[^.]+\.){4,}internal\.cloudapp\.net\.$"
      rcode NXDOMAIN
      fallthrough
    }
}
import custom/*.server
`

const k3s = `.:53 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
      pods insecure
      fallthrough in-addr.arpa ip6.arpa
    }
    hosts /etc/coredns/NodeHosts {
      ttl 60
      reload 15s
      fallthrough
    }
    prometheus :9153
    cache 30
    loop
    reload
    loadbalance
    import /etc/coredns/custom/*.override
    forward . /etc/resolv.conf
}
import /etc/coredns/custom/*.server
`

func TestDistributions(t *testing.T) {
	rke2 := object("rke2-coredns-rke2-coredns", "Corefile", strings.Replace(kubeadm, "loop\n", "loop\n    forward corp.example 10.1.0.53\n", 1))
	run(t, []row{
		{"kubeadm", []Object{coredns(kubeadm)}, nil},
		{"EKS", []Object{coredns(eks)}, nil},
		{"AKS without custom settings", []Object{coredns(aks)}, []string{
			`Corefile:19! node-dns has no equivalent of plugin "template"`,
		}},
		{"AKS with custom settings", []Object{coredns(aks), object("coredns-custom",
			"test.server", "corp.example:53 {\n    errors\n    cache 30\n    forward . 10.0.0.10 10.0.0.11\n}\n",
			"test.override", "hosts {\n    10.0.0.1 db.site.example\n    fallthrough\n}\n",
			"log.override", "log\n")}, []string{
			"coredns-custom test.server:4: corp.example. => 10.0.0.10 10.0.0.11",
			"coredns-custom test.override:2: 10.0.0.1 [db.site.example.]",
			`Corefile:19! node-dns has no equivalent of plugin "template"`,
		}},
		{"GKE", []Object{object("kube-dns",
			"stubDomains", `{"corp.example": ["10.1.0.53"], "acme.local": ["1.2.3.4:5353", "[2001:db8::1]:53"]}`,
			"upstreamNameservers", `["8.8.8.8", "8.8.4.4"]`)}, []string{
			"kube-dns stubDomains: acme.local. => 1.2.3.4:5353 2001:db8::1",
			"kube-dns stubDomains: corp.example. => 10.1.0.53",
			"kube-dns upstreamNameservers: . => 8.8.8.8 8.8.4.4",
		}},
		{"k3s", []Object{object("coredns", "Corefile", k3s, "NodeHosts", "10.2.0.1 server-0\n# a comment\n10.2.0.2 agent-0 # another\n")}, []string{
			"coredns NodeHosts:1: 10.2.0.1 [server-0.] ttl 60",
			"coredns NodeHosts:3: 10.2.0.2 [agent-0.] ttl 60",
		}},
		// CoreDNS never reaches the second forward.
		{"RKE2", []Object{rke2}, []string{
			"rke2-coredns-rke2-coredns Corefile:21! rke2-coredns-rke2-coredns Corefile:13 also forwards corp.example",
		}},
		{"OpenShift 4", []Object{operator(`{
			"servers": [
				{"name": "tls", "zones": ["corp.example", "svc.cluster.local"], "forwardPlugin": {
					"policy": "Random", "upstreams": ["1.1.1.1", "2.2.2.2:5353"],
					"transportConfig": {"transport": "TLS", "tls": {"caBundle": {"name": "mycacert"}, "serverName": "dnstls.example.com"}}}},
				{"name": "plain", "zones": ["test.example"], "forwardPlugin": {"upstreams": ["10.0.0.1", "10.0.0.2:5353"], "protocolStrategy": "TCP"}}],
			"upstreamResolvers": {"policy": "Sequential", "upstreams": [{"type": "Network", "address": "1.2.3.4", "port": 53}, {"type": "Network", "address": "2001:db8::1"}]},
			"logLevel": "Normal"}`)}, []string{
			"dns.operator/default servers[0]: corp.example. => dns+tls://1.1.1.1#dnstls.example.com dns+tls://2.2.2.2:5353#dnstls.example.com",
			"dns.operator/default servers[1]: test.example. => 10.0.0.1 10.0.0.2:5353",
			"dns.operator/default upstreamResolvers: . => 1.2.3.4 2001:db8::1",
			`dns.operator/default servers[0]! node-dns verifies the servers with this node's certificate authorities, not with caBundle "mycacert"`,
			"dns.operator/default servers[0]! svc.cluster.local is in the cluster's zone",
		}},
	})
}

// blockOf is a Corefile with one server block.
func blockOf(zones string, lines ...string) Object {
	return coredns(zones + " {\n" + strings.Join(lines, "\n") + "\n}\n")
}

func TestForward(t *testing.T) {
	run(t, []row{
		{"stub domain", []Object{blockOf("corp.example:53", "forward . 10.0.0.1 10.0.0.2:5353 [2001:db8::1]:53 dns://10.0.0.3")}, []string{
			"Corefile:2: corp.example. => 10.0.0.1 10.0.0.2:5353 2001:db8::1 10.0.0.3",
		}},
		{"proxy", []Object{blockOf(".:53", "proxy . 10.0.0.1 {", "policy random", "fail_timeout 1s", "}")}, []string{"Corefile:2: . => 10.0.0.1"}},
		{"proxy over gRPC", []Object{blockOf(".:53", "proxy . 10.0.0.1 {", "protocol grpc", "}")}, []string{
			`Corefile:3! protocol "grpc": node-dns uses only DNS and DNS over TLS`,
		}},
		{"all ignored options", []Object{blockOf(".", "forward . 10.0.0.1 {", "force_tcp", "prefer_udp", "expire 10s", "max_fails 3", "policy sequential",
			"health_check 5s", "max_concurrent 10", "next NXDOMAIN", "failover SERVFAIL", "}")}, []string{"Corefile:2: . => 10.0.0.1"}},
		{"FROM within the zone", []Object{blockOf("example:53", "forward corp.example 10.0.0.1")}, []string{"Corefile:2: corp.example. => 10.0.0.1"}},
		{"zone within FROM", []Object{blockOf("corp.example:53", "forward example 10.0.0.1")}, []string{"Corefile:2: corp.example. => 10.0.0.1"}},
		{"FROM outside of the zone", []Object{blockOf("corp.example:53", "forward other.example 10.0.0.1")}, []string{
			"Corefile:2! other.example has no names in common with the zones of its server block",
		}},
		{"zones on a second line without a comma", []Object{blockOf("a.example, b.example\ndns://c.example:53 .", "forward . 10.0.0.1")}, []string{
			`Corefile:2! unknown plugin "dns://c.example:53"`,
		}},
		// caddyfile's lexer ends such a comment at the next blank.
		{"# within a word", []Object{blockOf(".", "forward . 10.0.0.1#53 10.0.0.2")}, []string{"Corefile:2: . => 10.0.0.1 10.0.0.2"}},
		{"several zones over two lines", []Object{coredns("a.example, b.example,\ndns://c.example:53 d.example {\nforward . 10.0.0.1\n}\n")}, []string{
			"Corefile:3: a.example. => 10.0.0.1", "Corefile:3: b.example. => 10.0.0.1", "Corefile:3: c.example. => 10.0.0.1", "Corefile:3: d.example. => 10.0.0.1",
		}},
		{"nested zones of one block", []Object{blockOf(". corp.example", "forward . 10.0.0.1")}, []string{
			"Corefile:2: . => 10.0.0.1", "Corefile:2: corp.example. => 10.0.0.1",
		}},
		{"reverse zone", []Object{blockOf("10.1.0.0/16:53 2001:db8::/32", "forward . 10.0.0.1")}, []string{
			"Corefile:2: 1.10.in-addr.arpa. => 10.0.0.1", "Corefile:2: 8.b.d.0.1.0.0.2.ip6.arpa. => 10.0.0.1",
		}},
		{"reverse zone between octets", []Object{blockOf("10.1.0.0/17", "forward . 10.0.0.1")}, []string{
			`Corefile:1! zone "10.1.0.0/17": expected a CIDR that ends at an octet (IPv4) or at a nibble (IPv6)`,
		}},
		{"not a zone", []Object{blockOf("a..example:53 *.example http://x corp.example:70000", "forward . 10.0.0.1")}, []string{
			`Corefile:1! zone "a..example:53": expected a domain name`, `Corefile:1! zone "*.example": expected a domain name`,
			`Corefile:1! zone "http://x": unknown scheme`, `Corefile:1! zone "corp.example:70000": expected a port from 1 to 65535`,
		}},
		{"other services in addition to DNS", []Object{blockOf("tls://. .:53 .:5353 https://.", "forward . 10.0.0.1")}, []string{"Corefile:2: . => 10.0.0.1"}},
		{"other services alone", []Object{blockOf("tls://corp.example dns://a.example:5353", "forward . 10.0.0.1")}, []string{
			`Corefile:1! zone "tls://corp.example": node-dns follows only plain DNS at port 53`,
			`Corefile:1! zone "dns://a.example:5353": node-dns follows only plain DNS at port 53`,
		}},
		{"TLS", []Object{blockOf(".", "forward . tls://9.9.9.9 tls://[2620:fe::fe]:8853 {", "tls_servername dns.quad9.net", "}")}, []string{
			"Corefile:2: . => dns+tls://9.9.9.9#dns.quad9.net dns+tls://[2620:fe::fe]:8853#dns.quad9.net",
		}},
		{"TLS with a name per server", []Object{blockOf(".", "forward . tls://9.9.9.9%dns.quad9.net tls://1.1.1.1%cloudflare-dns.com:853")}, []string{
			"Corefile:2: . => dns+tls://9.9.9.9#dns.quad9.net dns+tls://1.1.1.1#cloudflare-dns.com",
		}},
		// CoreDNS verifies the address then, as nameserver.Server does.
		{"TLS without a name", []Object{blockOf(".", "forward . tls://9.9.9.9")}, []string{"Corefile:2: . => dns+tls://9.9.9.9"}},
		{"TLS with an authority", []Object{blockOf(".", "forward . tls://10.0.0.1 {", "tls /ca.pem", "tls_servername a", "}")}, []string{
			"Corefile:2: . => dns+tls://10.0.0.1#a",
			`Corefile:3! node-dns verifies the servers with this node's certificate authorities, not with "/ca.pem"`,
		}},
		{"TLS with a client certificate", []Object{blockOf(".", "forward . tls://10.0.0.1 {", "tls cert.pem key.pem", "}")}, []string{
			"Corefile:3! the servers expect a client certificate, which node-dns does not have",
		}},
		{"TLS with a bad name", []Object{blockOf(".", "forward . tls://10.0.0.1 {", "tls_servername a/b", "}")}, []string{
			`Corefile:2! server "tls://10.0.0.1": expected an IP address, and a certificate name other than "a/b"`,
		}},
		{"servers that cannot be used", []Object{blockOf(".", `forward . dns.example grpc://10.0.0.1 10.0.0.1@eth0 127.0.0.1 fe80::1%eth0 224.0.0.1 {$DNS} 10.0.0.9`)}, []string{
			"Corefile:2: . => 10.0.0.9",
			`Corefile:2! server "dns.example": expected an IP address, with or without a port`,
			`Corefile:2! server "grpc://10.0.0.1": node-dns uses only DNS and DNS over TLS`,
			`Corefile:2! server "10.0.0.1@eth0": expected an IP address, with or without a port`,
			`Corefile:2! server "127.0.0.1": the address means something else in the Pod of CoreDNS than on a node`,
			`Corefile:2! server "fe80::1%eth0": the address means something else in the Pod of CoreDNS than on a node`,
			`Corefile:2! server "224.0.0.1": it is a multicast address`,
			`Corefile:2! server "{$DNS}": the environment of CoreDNS is unknown`,
		}},
		{"resolv.conf as the server", []Object{blockOf("corp.example", "forward . /etc/resolv.conf")}, nil},
		{"resolv.conf and other servers", []Object{blockOf(".", "forward . /etc/resolv.conf 10.0.0.1")}, []string{"Corefile:2! the site's servers and others together"}},
		{"except", []Object{blockOf(".", "forward . 10.0.0.1 {", "except a.example b.example", "}")}, []string{
			`Corefile:3! except "a.example": node-dns cannot keep its names from these servers, so it does not use them`,
		}},
		{"except of the cluster", []Object{blockOf(".", "forward . 10.0.0.1 {", "except svc.cluster.local", "}")}, []string{"Corefile:2: . => 10.0.0.1"}},
		{"except enables a later forward", []Object{blockOf(".", "forward . 10.0.0.1 {", "except corp.example", "}", "forward corp.example 10.0.0.2")}, []string{
			"Corefile:5: corp.example. => 10.0.0.2",
			`Corefile:3! except "corp.example": node-dns cannot keep its names from these servers, so it does not use them`,
		}},
		{"unknown option", []Object{blockOf(".", "forward . 10.0.0.1 {", "magic", "}")}, []string{
			`Corefile:3! unknown option "magic", so node-dns does not use these servers`,
		}},
		{"two routes for the same domain", []Object{blockOf(".", "forward corp.example 10.0.0.1", "forward corp.example 10.0.0.2")}, []string{
			"Corefile:2: corp.example. => 10.0.0.1", "Corefile:3! Corefile:2 also forwards corp.example",
		}},
		{"two root blocks", []Object{coredns(".:53 {\nforward . 10.0.0.1\n}\n. {\nforward . 10.0.0.2\n}\n")}, []string{
			"Corefile:2: . => 10.0.0.1", "Corefile:4! Corefile:1 also serves .",
		}},
		{"a longer zone wins", []Object{coredns(". {\nforward a.corp.example 10.0.0.1\n}\ncorp.example {\nforward . 10.0.0.2\n}\n")}, []string{
			"Corefile:5: corp.example. => 10.0.0.2", "Corefile:2! Corefile:4 serves a.corp.example",
		}},
		{"in the cluster's zone", []Object{coredns("cluster.local {\nkubernetes\nforward svc.cluster.local 10.0.0.1\n}\n. {\nforward . 10.0.0.2\n}\n")}, []string{
			"Corefile:6: . => 10.0.0.2", "Corefile:3! svc.cluster.local is in the cluster's zone",
		}},
		// The root's servers must not get names that CoreDNS sends to other ones.
		{"names would leak", []Object{coredns(". {\nforward . 8.8.8.8\n}\ncorp.example {\nforward . ns.corp.example\n}\n")}, []string{
			`Corefile:5! server "ns.corp.example": expected an IP address, with or without a port`,
			"Corefile:2! its servers would receive names of corp.example, which Corefile:5 keeps from them",
		}},
		{"names would leak from a block without forward", []Object{coredns(". {\nforward . 8.8.8.8\nforward example 8.8.4.4\n}\ncorp.example {\nfile db\n}\n")}, []string{
			"Corefile:3! Corefile:2 also forwards example",
			`Corefile:6! node-dns has no equivalent of plugin "file"`,
			"Corefile:2! its servers would receive names of corp.example, which Corefile:5 keeps from them",
		}},
		{"names would leak with resolv.conf as the server", []Object{coredns(". {\nforward . 8.8.8.8\n}\ncorp.example {\nforward . /etc/resolv.conf\n}\n")}, []string{
			"Corefile:2! its servers would receive names of corp.example, which Corefile:5 keeps from them",
		}},
		{"invalid zone and FROM", []Object{blockOf("a.example a.example {$ZONE}", "forward x/y 10.0.0.1", "forward . 10.0.0.1 {", "except a/b", "}")}, []string{
			`Corefile:1! zone "{$ZONE}": the environment of CoreDNS is unknown`,
			`Corefile:2! domain "x/y": expected a domain name or a CIDR`,
			`Corefile:4! except "a/b": node-dns cannot keep its names from these servers, so it does not use them`,
		}},
		{"view", []Object{coredns("corp.example {\nview v {\nexpr true\n}\nforward . 10.0.0.1\n}\ncorp.example {\nforward . 10.0.0.2\n}\n")}, []string{
			"Corefile:8: corp.example. => 10.0.0.2",
			`Corefile:2! a server block with plugin "view" serves only some clients or queries`,
		}},
		{"arguments are missing", []Object{blockOf(".", "forward", "forward .")}, []string{
			"Corefile:2! forward: expected a domain and at least one server", "Corefile:3! forward: expected a domain and at least one server",
		}},
		{"more than 15 servers", []Object{blockOf(".", "forward . 10.0.0.1 10.0.0.1 1.1.1.1 1.1.1.2 1.1.1.3 1.1.1.4 1.1.1.5 1.1.1.6 1.1.1.7 1.1.1.8 1.1.1.9 1.1.1.10 1.1.1.11 1.1.1.12 1.1.1.13 1.1.1.14")}, []string{
			"Corefile:2: . => 10.0.0.1 1.1.1.1 1.1.1.2 1.1.1.3 1.1.1.4 1.1.1.5 1.1.1.6 1.1.1.7 1.1.1.8 1.1.1.9 1.1.1.10 1.1.1.11 1.1.1.12 1.1.1.13",
			"Corefile:2! only the first 15 servers are used",
		}},
	})
}

// TestLeaks: names that go to other servers, or to none, must not go to the servers of wider
// routes.
func TestLeaks(t *testing.T) {
	const rootBlock = ". {\nforward . 8.8.8.8\nforward example 8.8.4.4\n}\n"
	const stubs = "kube-dns upstreamNameservers! its servers would receive names of kube-dns stubDomains, which cannot be read"
	unread := func(line string) string {
		return "Corefile:" + line + "! its servers would receive names of Corefile:1, which cannot be read"
	}
	corp := Object{Kind: "DNS", Name: "default", Spec: json.RawMessage(`{"servers": [{"zones": ["corp.test"], "forwardPlugin": {"upstreams": ["10.0.0.1"]}}],
		"upstreamResolvers": {"upstreams": [{"type": "Network", "address": "9.9.9.9"}]}}`)}
	run(t, []row{
		{"a zone from the environment", []Object{coredns("{$ZONE}:53 {\nforward . 10.0.0.1\n}\n. {\nforward . 8.8.8.8\n}\n")}, []string{
			`Corefile:1! zone "{$ZONE}:53": the environment of CoreDNS is unknown`, unread("5"),
		}},
		{"a bad name", []Object{coredns("a..b {\nforward . 10.0.0.1\n}\na.example {\nforward . 10.0.0.1\n}\n. {\nforward . 8.8.8.8\n}\n")}, []string{
			"Corefile:5: a.example. => 10.0.0.1", `Corefile:1! zone "a..b": expected a domain name`, unread("8"),
		}},
		{"a CIDR between octets", []Object{coredns("10.1.0.0/17 {\nforward . 10.0.0.1\n}\n. {\nforward . 8.8.8.8\n}\n")}, []string{
			`Corefile:1! zone "10.1.0.0/17": expected a CIDR that ends at an octet (IPv4) or at a nibble (IPv6)`, unread("5"),
		}},
		{"a bad name at another port", []Object{coredns("a..b:5353 tls://a..b {\nforward . 10.0.0.1\n}\n. {\nforward . 8.8.8.8\n}\n")}, []string{
			"Corefile:5: . => 8.8.8.8",
			`Corefile:1! zone "a..b:5353": expected a domain name`, `Corefile:1! zone "tls://a..b": expected a domain name`,
		}},
		{"a forward of an unknown domain", []Object{blockOf(".", "forward {$DOMAIN} 10.0.0.1", "forward . 8.8.8.8")}, []string{
			`Corefile:2! domain "{$DOMAIN}": the environment of CoreDNS is unknown`,
			"Corefile:3! its servers would receive names of Corefile:2, which cannot be read",
		}},
		{"hosts of an unknown zone", []Object{blockOf(".", "hosts f a..b", "forward . 8.8.8.8"), object("coredns-custom", "f", "")}, []string{
			`Corefile:2! zone "a..b": expected a domain name`,
			"Corefile:3! its servers would receive names of Corefile:2, which cannot be read",
		}},
		{"hosts of an unknown zone with fallthrough", []Object{blockOf(".", "hosts f a..b {", "fallthrough", "}", "forward . 8.8.8.8"), object("coredns-custom", "f", "")}, []string{
			"Corefile:5: . => 8.8.8.8", `Corefile:2! zone "a..b": expected a domain name`,
		}},
		{"an import at top level", []Object{coredns("import /etc/coredns/extra/*.conf\n" + rootBlock)}, []string{
			`Corefile:1! import of "/etc/coredns/extra/*.conf": no such snippet, and no such key in the ConfigMap coredns-custom`,
			"Corefile:4! Corefile:3 also forwards example", unread("3"),
		}},
		{"an import from the environment at top level", []Object{coredns("import {$X}\n. {\nforward . 8.8.8.8\n}\n")}, []string{
			`Corefile:1! import of "{$X}": the environment of CoreDNS is unknown`, unread("3"),
		}},
		{"an optional import at top level", []Object{coredns("import custom/*.server\n. {\nforward . 8.8.8.8\n}\n")}, []string{"Corefile:3: . => 8.8.8.8"}},
		{"malformed stub domains", []Object{object("kube-dns", "stubDomains", `{"corp.example": ["10.0.0.1"]`, "upstreamNameservers", `["8.8.8.8"]`)}, []string{
			`kube-dns stubDomains! expected a JSON object of domains with lists of servers: "unexpected end of JSON input"`, stubs,
		}},
		{"a stub domain with a bad name", []Object{object("kube-dns", "stubDomains", `{"a..b": ["10.0.0.1"]}`, "upstreamNameservers", `["8.8.8.8"]`)}, []string{
			`kube-dns stubDomains! "a..b": expected a domain name`, stubs,
		}},
		{"an operator server with a bad zone", []Object{operator(`{"servers": [{"zones": ["a..b", "c.test"], "forwardPlugin": {"upstreams": ["10.0.0.1"]}}],
			"upstreamResolvers": {"upstreams": [{"type": "Network", "address": "9.9.9.9"}]}}`)}, []string{
			"dns.operator/default servers[0]: c.test. => 10.0.0.1",
			`dns.operator/default servers[0]! zone "a..b": expected a domain name`,
			"dns.operator/default upstreamResolvers! its servers would receive names of dns.operator/default servers[0], which cannot be read",
		}},
		{"an operator server that is malformed", []Object{operator(`{"servers": [1], "upstreamResolvers": {"upstreams": [{"type": "Network", "address": "9.9.9.9"}]}}`)}, []string{
			`dns.operator/default servers[0]! expected zones and a forwardPlugin: "json: cannot unmarshal number into Go value of type clusterdns.operatorServer"`,
			"dns.operator/default upstreamResolvers! its servers would receive names of dns.operator/default servers[0], which cannot be read",
		}},
		{"an unknown zone of another object", []Object{coredns("{$ZONE} {\nforward . 10.0.0.1\n}\n"), corp}, []string{
			"dns.operator/default servers[0]: corp.test. => 10.0.0.1",
			`Corefile:1! zone "{$ZONE}": the environment of CoreDNS is unknown`,
			"dns.operator/default upstreamResolvers! its servers would receive names of Corefile:1, which cannot be read",
		}},
		{"a domain of another object", []Object{coredns("a.test {\nforward . ns.a.test\n}\n"), corp}, []string{
			"dns.operator/default servers[0]: corp.test. => 10.0.0.1",
			`Corefile:2! server "ns.a.test": expected an IP address, with or without a port`,
			"dns.operator/default upstreamResolvers! its servers would receive names of a.test, which Corefile:2 keeps from them",
		}},
		{"the first object wins", []Object{corp, coredns("corp.test {\nforward . 10.0.0.2\n}\n. {\nforward . 8.8.8.8\n}\n")}, []string{
			"Corefile:2: corp.test. => 10.0.0.2", "Corefile:5: . => 8.8.8.8",
			"dns.operator/default servers[0]! Corefile:2 also forwards corp.test",
			"dns.operator/default upstreamResolvers! Corefile:5 also forwards .",
		}},
		{"plugins that answer from the API", []Object{coredns("clusterset.local {\nmulticluster clusterset.local\n}\nb.local {\nkubernetai b.local\n}\nc.local {\nkubernetes c.local\n}\n. {\nforward . 8.8.8.8\n}\n")}, []string{
			"Corefile:11: . => 8.8.8.8",
		}},
	})
}

// TestPods: domains for which node-dns has no equivalent are left to the DNS pods. Settings for
// other or unknown names stay unsupported.
func TestPods(t *testing.T) {
	none := func(line, plugin string) string {
		return "Corefile:" + line + `! node-dns has no equivalent of plugin "` + plugin + `"`
	}
	const root = ". {\nforward . 8.8.8.8\n}\n"
	runWith(t, []row{
		{"a name that becomes a Service's", []Object{blockOf(".", "rewrite name www.corp.test web.shop.svc.cluster.local")}, []string{"Corefile:2: www.corp.test. => pods"}},
		{"names that become Services'", []Object{blockOf(".", "rewrite stop name suffix .corp.test. .svc.cluster.local. answer auto")}, []string{"Corefile:2: corp.test. => pods"}},
		{"a block of rewrite", []Object{blockOf(".", "rewrite stop {", "name exact www.corp.test web.shop.svc.cluster.local", "answer auto", "}")}, []string{"Corefile:2: www.corp.test. => pods"}},
		{"a name that becomes another one", []Object{blockOf(".", "rewrite name www.corp.test www.example.com")}, []string{none("2", "rewrite")}},
		{"names of a pattern", []Object{blockOf(".", `rewrite name regex (.*)\.corp\.test {1}.svc.cluster.local`, "rewrite name prefix a. b.svc.cluster.local")}, []string{none("2", "rewrite"), none("3", "rewrite")}},
		{"another field", []Object{blockOf(".", "rewrite type ANY HINFO", "rewrite name", "rewrite name exact a.test", "rewrite")}, []string{none("2", "rewrite"), none("3", "rewrite"), none("4", "rewrite"), none("5", "rewrite")}},
		{"a name of the cluster", []Object{blockOf(".", "rewrite name a.cluster.local b.default.svc.cluster.local")}, []string{none("2", "rewrite")}},
		{"templates", []Object{blockOf(".", "template IN A corp.test lab.test {", "rcode NXDOMAIN", "}", "template IN AAAA corp.test {", "rcode NXDOMAIN", "}")}, []string{
			"Corefile:2: corp.test. => pods", "Corefile:2: lab.test. => pods",
		}},
		{"a template for all names", []Object{blockOf(".", "template IN A {", "rcode NXDOMAIN", "}", "template IN A . {", "rcode NXDOMAIN", "}")}, []string{none("2", "template"), none("5", "template")}},
		{"AKS: a template with fallthrough", []Object{coredns(aks)}, []string{none("19", "template")}},
		{"external names of Services", []Object{blockOf(".", "k8s_external ext.test", "k8s_external")}, []string{"Corefile:2: ext.test. => pods"}},
		{"a zone file", []Object{coredns("corp.test {\nfile /etc/coredns/corp.db\n}\n" + root)}, []string{"Corefile:1: corp.test. => pods", "Corefile:5: . => 8.8.8.8"}},
		{"a zone that is rewritten and forwarded", []Object{coredns("corp.test {\nrewrite name suffix .corp.test .lab.test\nhosts {\n10.0.0.1 a.corp.test\n}\nforward . 10.0.0.1\n}\n" + root)}, []string{
			"Corefile:1: corp.test. => pods", "Corefile:9: . => 8.8.8.8",
		}},
		{"an unknown plugin", []Object{coredns("corp.test lab.test {\nsite_plugin\n}\n" + root)}, []string{"Corefile:1: corp.test. => pods", "Corefile:1: lab.test. => pods", "Corefile:5: . => 8.8.8.8"}},
		{"a forward with exceptions", []Object{coredns("corp.test {\nforward . 10.0.0.1 {\nexcept lab.corp.test\n}\n}\n" + root)}, []string{
			"Corefile:2: corp.test. => pods", "Corefile:7: . => 8.8.8.8",
			"Corefile:3! except \"lab.corp.test\": node-dns cannot keep its names from these servers, so it does not use them",
		}},
		{"the site's servers", []Object{coredns("corp.test {\nforward . /etc/resolv.conf\n}\n" + root)}, []string{
			"Corefile:5! its servers would receive names of corp.test, which Corefile:2 keeps from them",
		}},
		{"clients that get other answers", []Object{coredns("corp.test {\nacl {\nblock\n}\nfile f\n}\n" + root)}, []string{
			none("2", "acl"), none("5", "file"), "Corefile:8! its servers would receive names of corp.test, which Corefile:1 keeps from them",
		}},
		{"forward before another plugin", []Object{blockOf(".", "forward corp.test 10.0.0.1", "forward sub.corp.test 10.0.0.1", "file db corp.test", "forward . 8.8.8.8")}, []string{
			"Corefile:4: corp.test. => pods", "Corefile:5: . => 8.8.8.8",
			"Corefile:2! the plugin at Corefile:4 answers all names of corp.test",
			"Corefile:3! the plugin at Corefile:4 answers all names of sub.corp.test",
		}},
		{"a domain within one of the pods for the site's servers", []Object{coredns("corp.test {\nfile f\n}\nsub.corp.test {\nforward . /etc/resolv.conf\n}\n")}, []string{"Corefile:1: corp.test. => pods"}},
		{"a domain within one of the pods that depends on the client", []Object{coredns("corp.test {\nfile f\n}\nsub.corp.test {\nacl {\nblock\n}\n}\n")}, []string{
			"Corefile:1: corp.test. => pods", "Corefile:4: sub.corp.test. => barred", none("5", "acl"),
		}},
		{"the cluster's zone", []Object{coredns("cluster.local {\nkubernetes cluster.local\ntransfer {\nto *\n}\n}\n")}, []string{none("3", "transfer")}},
		{"all names", []Object{coredns(". corp.test {\ndns64\nforward . 8.8.8.8\n}\n")}, []string{"Corefile:3: . => 8.8.8.8", "Corefile:3: corp.test. => 8.8.8.8", none("2", "dns64")}},
	}, true)
}

// TestMalformed: an unsupported setting does not make its object malformed.
func TestMalformed(t *testing.T) {
	custom := func(data ...string) []Object {
		return []Object{coredns(". {\nimport custom/*.override\nforward . 8.8.8.8\n}\nimport custom/*.server\n"), object("coredns-custom", data...)}
	}
	rows := []row{
		{"no objects", nil, nil},
		{"kubeadm", []Object{coredns(kubeadm)}, nil},
		{"unsupported, not malformed", []Object{coredns("{$X}, a..b {\nforward . ns.example\nforward x/y\nmagic {\n}\nhosts none a..b\nimport none\n}\nimport extra\n(a) {\n}\n(a) {\n}\n")}, nil},
		{"unsupported, not malformed: kube-dns", []Object{object("kube-dns", "stubDomains", `{"a..b": ["1.1.1.1"], "c": ["ns.example"]}`)}, nil},
		{"unsupported, not malformed: operator", []Object{operator(`{"servers": [{"zones": ["a..b"]}], "upstreamResolvers": {"upstreams": [{"type": "New"}]}}`)}, nil},
		{"stub domains", []Object{object("kube-dns", "stubDomains", `{`, "upstreamNameservers", `{}`)}, []string{
			`kube-system/kube-dns: kube-dns stubDomains! expected a JSON object of domains with lists of servers: "unexpected end of JSON input"`,
		}},
		{"servers of a stub domain", []Object{object("kube-dns", "stubDomains", `{"a": "1.1.1.1"}`)}, []string{
			`kube-system/kube-dns: kube-dns stubDomains! "a": expected a list of servers`,
		}},
		{"upstream servers", []Object{object("kube-dns", "upstreamNameservers", `{}`)}, []string{
			`kube-system/kube-dns: kube-dns upstreamNameservers! expected a JSON list of servers: "json: cannot unmarshal object into Go value of type []string"`,
		}},
		{"spec", []Object{operator(`{"servers": 1}`)}, []string{
			`/default: dns.operator/default! expected the spec of a DNS of operator.openshift.io/v1: "json: cannot unmarshal number into Go struct field operatorSpec.servers of type []json.RawMessage"`,
		}},
		{"server and resolvers of a spec", []Object{operator(`{"servers": [{"zones": 1}], "upstreamResolvers": 1}`)}, []string{
			`/default: dns.operator/default servers[0]! expected zones and a forwardPlugin: "json: cannot unmarshal number into Go struct field operatorServer.zones of type []string"`,
		}},
		{"resolvers of a spec", []Object{operator(`{"upstreamResolvers": []}`)}, []string{
			`/default: dns.operator/default upstreamResolvers! expected a list of upstreams: "json: cannot unmarshal array into Go value of type clusterdns.operatorResolvers"`,
		}},
		{"two objects", []Object{{Kind: "DNS", Name: "x", Spec: json.RawMessage("[")}, coredns("}")}, []string{
			`kube-system/coredns: Corefile:1! unexpected "}"; expected a server block`,
			`/x: dns.operator/x! expected the spec of a DNS of operator.openshift.io/v1: "unexpected end of JSON input"`,
		}},
		{"server block", []Object{coredns(". {\nlog\n")}, []string{`kube-system/coredns: Corefile:1! server block without its closing "}"`}},
		{"plugin", []Object{coredns(". {\nlog {\n}\n")}, []string{`kube-system/coredns: Corefile:1! server block without its closing "}"`}},
		{"plugin without braces around it", []Object{coredns(".\nlog {\n")}, []string{`kube-system/coredns: Corefile:2! "log": its block has no closing "}"`}},
		{"closing brace", []Object{coredns(". {\n}\n}\n")}, []string{`kube-system/coredns: Corefile:3! unexpected "}"; expected a server block`}},
		{"closing brace on a line", []Object{coredns(". {\nlog }\n")}, []string{`kube-system/coredns: Corefile:2! "log": unexpected "}"; expected the end of the line`}},
		{"closing brace without a block", []Object{coredns(".\nlog\n}\n")}, []string{`kube-system/coredns: Corefile:3! unexpected "}"; expected a plugin`}},
		{"snippet", []Object{coredns("(a) {\n")}, []string{`kube-system/coredns: Corefile:1! snippet without its closing "}"`}},
		{"snippet without a body", []Object{coredns("(a)\n")}, []string{`kube-system/coredns: Corefile:1! snippet without "{"`}},
		{"length", []Object{coredns(strings.Repeat("#", maxValue+1))}, []string{"kube-system/coredns: Corefile! it is longer than 1048576 bytes"}},
		{"length of a key", custom("a.server", strings.Repeat("#", maxValue+1)), []string{"kube-system/coredns-custom: coredns-custom a.server! it is longer than 1048576 bytes"}},
		{"imports", []Object{coredns("(a) {\nlog\n}\n. {\n" + strings.Repeat("import a\n", maxImports+1) + "}\n")}, []string{
			"kube-system/coredns: Corefile:1005! the Corefile and its imports have more than 1000 imports; the rest is not read",
		}},
		{"plugins of a key", custom("a.override", strings.Repeat("log\n", maxDirectives+1)), []string{
			"kube-system/coredns-custom: coredns-custom a.override:10001! the Corefile and its imports have more than 10000 plugins; the rest is not read",
		}},
		{"block of a key", custom("a.server", "a.example {\nforward . 10.0.0.1\n"), []string{`kube-system/coredns-custom: coredns-custom a.server:1! "{" without its closing "}"; this key is not read`}},
		{"plugin of a key", custom("a.override", "log\nforward a.example 10.0.0.1 {\n"), []string{`kube-system/coredns-custom: coredns-custom a.override:2! "{" without its closing "}"; this key is not read`}},
		{"closing brace of a key", custom("a.override", "log\n}\nb.example {\n"), []string{`kube-system/coredns-custom: coredns-custom a.override:2! unexpected "}"; this key is not read`}},
		{"closing brace on a line of a key", custom("a.server", "a.example {\nlog {\n} }\n"), []string{`kube-system/coredns-custom: coredns-custom a.server:3! "log": unexpected "}"; expected the end of the line`}},
		{"a key without braces", []Object{coredns("import custom/a.server\n. {\n}\n}\n"), object("coredns-custom", "a.server", "a.example\nlog\n")}, []string{
			`kube-system/coredns-custom: coredns-custom a.server:1! unexpected "}"; expected a plugin`,
		}},
		{"a key that nothing imports", custom("a.txt", "}", "b.server", "a.example {\n}\n"), nil},
		{"ignored Corefile", []Object{coredns(kubeadm), object("coredns-old", "Corefile", "}"), object("kube-dns", "stubDomains", "[")}, nil},
	}
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			settings := Read(tt.objects, clusterZones, false)
			check(t, settings, tt.objects)
			var got []string
			for _, m := range settings.Malformed {
				fault := Settings{Unfollowed: []Unfollowed{{m.Where, m.Text}}}
				got = append(got, fmt.Sprintf("%s/%s: %s", m.Namespace, m.Name, render(fault)[0]))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestManyAddresses: the limit applies to each name, over all entries.
func TestManyAddresses(t *testing.T) {
	entries := []string{"hosts {", "10.0.0.1 a.example", "fallthrough"}
	for i := range 3 * maxAddresses {
		entries = append(entries, fmt.Sprintf("10.0.%d.%d a.example b%d.example", i/200, i%200+1, i))
	}
	s := Read([]Object{blockOf(".", append(entries, "10.0.0.1 a.example", "10.0.9.9 a.example", "}")...)}, clusterZones, false)
	a, count := dnsname.MustParse("a.example"), 0
	for _, h := range s.Hosts {
		if slices.Contains(h.Names, a) {
			count++
		}
	}
	if count != maxAddresses || len(s.Hosts) != 3*maxAddresses+1 {
		t.Errorf("%d addresses of a.example in %d entries", count, len(s.Hosts))
	}
	want := []string{"Corefile:105! a.example has more than 100 addresses; only the first 100 of a name are used"}
	if diff := cmp.Diff(want, render(Settings{Unfollowed: s.Unfollowed})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestHosts(t *testing.T) {
	run(t, []row{
		{"with fallthrough", []Object{blockOf(".", "hosts {", "10.0.0.1 a.example B.example.", "::ffff:10.0.0.2 c", "ttl 5", "no_reverse", "reload 1s", "fallthrough", "}")}, []string{
			"Corefile:3: 10.0.0.1 [a.example. b.example.] ttl 5 no_reverse", "Corefile:4: 10.0.0.2 [c.] ttl 5 no_reverse",
		}},
		{"root without fallthrough", []Object{blockOf(".", "hosts {", "10.0.0.1 a.example", "}")}, []string{
			"Corefile:3: 10.0.0.1 [a.example.]",
			"Corefile:2! without fallthrough, no other name exists in CoreDNS; node-dns still resolves other names",
		}},
		// PTR queries go to another block.
		{"zone without fallthrough", []Object{blockOf("corp.example", "hosts {", "10.0.0.1 a.corp.example other.example", "}")}, []string{
			"Corefile:2: corp.example. => local", "Corefile:3: 10.0.0.1 [a.corp.example.] no_reverse",
		}},
		{"forward is never reached", []Object{blockOf("corp.example", "forward . 10.0.0.9", "hosts {", "10.0.0.1 a.corp.example", "}")}, []string{
			"Corefile:3: corp.example. => local", "Corefile:4: 10.0.0.1 [a.corp.example.] no_reverse",
			"Corefile:2! the plugin at Corefile:3 answers all names of corp.example",
		}},
		{"forward is reached", []Object{blockOf("corp.example", "forward . 10.0.0.9", "hosts {", "10.0.0.1 a.corp.example", "fallthrough corp.example", "}")}, []string{
			"Corefile:2: corp.example. => 10.0.0.9", "Corefile:4: 10.0.0.1 [a.corp.example.] no_reverse",
		}},
		{"hosts with zones", []Object{coredns(". {\nhosts /etc/coredns/custom/x corp.example {\n10.0.0.1 a.corp.example a.example\n}\nforward . 8.8.8.8\n}\n"), object("coredns-custom", "x", "10.0.0.3 c.corp.example")}, []string{
			"Corefile:2: corp.example. => local", "Corefile:5: . => 8.8.8.8",
			"coredns-custom x:1: 10.0.0.3 [c.corp.example.]", "Corefile:3: 10.0.0.1 [a.corp.example.]",
		}},
		{"fallthrough for a part", []Object{blockOf("corp.example", "hosts {", "10.0.0.1 a.corp.example", "fallthrough b.corp.example", "}")}, []string{
			"Corefile:3: 10.0.0.1 [a.corp.example.] no_reverse",
			"Corefile:2! fallthrough for a part of corp.example only; node-dns still resolves its other names",
		}},
		{"unknown file", []Object{blockOf("corp.example", "hosts /etc/hosts.corp {", "10.0.0.1 a.corp.example", "}")}, []string{
			"Corefile:3: 10.0.0.1 [a.corp.example.] no_reverse",
			`Corefile:2! hosts file "/etc/hosts.corp": its contents are unknown`,
		}},
		{"in the cluster's zone", []Object{blockOf("cluster.local", "hosts {", "10.0.0.1 a.cluster.local", "}")}, []string{
			"Corefile:3: 10.0.0.1 [a.cluster.local.] no_reverse", "Corefile:2! cluster.local is in the cluster's zone",
		}},
		{"served by another block", []Object{coredns(". {\nhosts {\n10.0.0.1 a.corp.example\nfallthrough\n}\n}\ncorp.example {\nforward . 10.0.0.2\n}\n")}, []string{
			"Corefile:8: corp.example. => 10.0.0.2", "Corefile:3! Corefile:7 serves a.corp.example",
		}},
		{"malformed zones", []Object{blockOf("corp.example", "hosts x y/z corp.example {", "fallthrough a..b", "}"), object("coredns-custom", "x", "1.1.1.1 a.corp.example")}, []string{
			"coredns-custom x:1: 1.1.1.1 [a.corp.example.] no_reverse",
			`Corefile:2! zone "y/z": expected a domain name or a CIDR`, `Corefile:3! fallthrough "a..b": expected a domain name`,
		}},
		{"malformed", []Object{blockOf(".", "hosts {", "10.0.0.300 a", "10.0.0.1", "10.0.0.2 a/b *.c d", "ttl x", "ttl 99999", "10.0.0.3 {$NAME}", "fallthrough", "}", "hosts {", "}")}, []string{
			"Corefile:5: 10.0.0.2 [d.]",
			"Corefile:6! ttl: expected a number from 0 to 65535", "Corefile:7! ttl: expected a number from 0 to 65535",
			`Corefile:3! "10.0.0.300": expected an IP address with names`, `Corefile:4! "10.0.0.1": expected names after the address`,
			`Corefile:5! "a/b": expected a host name`, `Corefile:5! "*.c": expected a host name`, `Corefile:8! "{$NAME}": expected a host name`,
			`Corefile:11! plugin "hosts" occurs twice in a server block; the first one is used`,
		}},
	})
}

func TestCorefile(t *testing.T) {
	run(t, []row{
		{"empty", []Object{coredns("")}, nil},
		{"comments and quotes", []Object{coredns("# a { b\n\"corp.example\" { # c }\n  forward . \"10.0.0.1\" # 10.0.0.2\n}\n")}, []string{"Corefile:3: corp.example. => 10.0.0.1"}},
		{"no braces", []Object{coredns("corp.example\nforward . 10.0.0.1\n")}, []string{"Corefile:2: corp.example. => 10.0.0.1"}},
		{"snippets", []Object{coredns("(up) {\n10.9.9.9 x\n}\n(fwd) {\nforward . 10.0.0.1 {\nmax_fails 1\n}\n}\na.example {\nimport fwd\n}\nb.example {\nimport fwd\nlog\n}\n. {\nhosts {\nimport up\nfallthrough\n}\n}\n")}, []string{
			"Corefile:5: a.example. => 10.0.0.1", "Corefile:5: b.example. => 10.0.0.1", "Corefile:2: 10.9.9.9 [x.]",
		}},
		{"snippet imports itself", []Object{coredns("(a) {\nlog\nimport b\n}\n(b) {\nimport a\n}\n. {\nimport a\nforward . 10.0.0.1\n}\n")}, []string{
			"Corefile:10: . => 10.0.0.1", `Corefile:6! "(a)" imports itself`,
		}},
		{"snippet twice", []Object{coredns("(a) {\nforward . 10.0.0.1\n}\n(a) {\n}\n. {\nimport a\n}\n")}, []string{
			"Corefile:2: . => 10.0.0.1", `Corefile:4! snippet "(a)" is defined twice; the first one is used`,
		}},
		{"malformed snippets", []Object{coredns("(a)\n. {\nforward . 10.0.0.1\n}\n(b) {\nlog\n")}, []string{
			`Corefile:1! snippet without "{"`, `Corefile:5! snippet without its closing "}"`,
			"Corefile:3! its servers would receive names of Corefile:1, which cannot be read",
		}},
		{"unknown imports", []Object{coredns("\n. {\nimport\nimport none\nimport {$X}\nimport custom/[\nforward . 10.0.0.1\n}\n")}, []string{
			"Corefile:7: . => 10.0.0.1",
			"Corefile:3! import without a name; expected a snippet or a file",
			`Corefile:4! import of "none": no such snippet, and no such key in the ConfigMap coredns-custom`,
			`Corefile:5! import of "{$X}": the environment of CoreDNS is unknown`,
			`Corefile:6! import of "custom/[": not a valid file name pattern`,
		}},
		{"custom settings that nothing imports", []Object{coredns(". {\nimport custom/*.override\n}\n"), object("coredns-custom", "a.server", "x", "b.override", "log", "c", "")}, []string{
			"coredns-custom a.server! no Corefile imports it",
		}},
		{"plugins", []Object{blockOf(".", "rewrite name a b", "magic \x1b[31m", "acl {", "block", "}", "cache 30 {", "success 1", "}")}, []string{
			`Corefile:2! node-dns has no equivalent of plugin "rewrite"`, `Corefile:3! unknown plugin "magic"`, `Corefile:4! node-dns has no equivalent of plugin "acl"`,
		}},
		{"no closing brace", []Object{coredns("a.example {\nforward . 10.0.0.1\n}\nb.example {\nforward . 10.0.0.2\n")}, []string{
			"Corefile:2: a.example. => 10.0.0.1", "Corefile:5: b.example. => 10.0.0.2", `Corefile:4! server block without its closing "}"`,
		}},
		{"no closing brace of a plugin", []Object{coredns(". {\nforward . 10.0.0.1 {\nmax_fails 1\n")}, []string{
			`Corefile:2! "forward": its block has no closing "}"`, `Corefile:1! server block without its closing "}"`,
		}},
		{"no zone", []Object{coredns("{\nforward . 10.0.0.1\n}\n}\na.example {\nforward . 10.0.0.1\n}\n")}, []string{
			"Corefile:6: a.example. => 10.0.0.1", "Corefile:1! server block without a zone", `Corefile:4! unexpected "}"; expected a server block`,
		}},
		{"block on one line", []Object{coredns(". { forward . 10.0.0.1 }\n")}, []string{`Corefile:1! "forward": unexpected "}"; expected the end of the line`}},
		{"text after the block of a plugin", []Object{blockOf(".", "forward . 10.0.0.1 {", "} x", "forward . 10.0.0.2")}, []string{
			`Corefile:3! "forward": unexpected "x"; expected the end of the line`,
			"Corefile:4! its servers would receive names of Corefile:3, which cannot be read",
		}},
		{"long strings are truncated", []Object{blockOf(".", strings.Repeat("ä", 200))}, []string{`Corefile:2! unknown plugin "` + strings.Repeat("ä", 100) + `"…`}},
	})
}

func TestOtherObjects(t *testing.T) {
	run(t, []row{
		{"none", nil, nil},
		{"objects without DNS settings", []Object{object("kube-proxy", "config.conf", "x"), {Kind: "Secret", Data: map[string]string{"Corefile": "}"}}}, nil},
		{"kube-dns, malformed", []Object{object("kube-dns", "stubDomains", `{"a.example": "1.1.1.1", "b..c": ["1.1.1.1"], "d.example": ["ns.example", "1.1.1.1"], "": []}`, "upstreamNameservers", `["8.8.8.8"`)}, []string{
			"kube-dns stubDomains: d.example. => 1.1.1.1",
			`kube-dns stubDomains! "": expected a domain name`,
			`kube-dns stubDomains! "a.example": expected a list of servers`, `kube-dns stubDomains! "b..c": expected a domain name`,
			`kube-dns stubDomains! server "ns.example": expected an IP address, with or without a port`,
			`kube-dns upstreamNameservers! expected a JSON list of servers: "unexpected end of JSON input"`,
		}},
		{"kube-dns would leak", []Object{object("kube-dns", "stubDomains", `{"corp.example": ["ns.corp.example"]}`, "upstreamNameservers", `["8.8.8.8"]`)}, []string{
			`kube-dns stubDomains! server "ns.corp.example": expected an IP address, with or without a port`,
			"kube-dns upstreamNameservers! its servers would receive names of corp.example, which kube-dns stubDomains keeps from them",
		}},
		{"operator without settings", []Object{operator(`{}`), {Kind: "DNS", Name: "x"}}, nil},
		{"operator with SystemResolvConf", []Object{operator(`{"upstreamResolvers": {"upstreams": [{"type": "SystemResolvConf", "port": 53}]}}`)}, nil},
		{"operator with SystemResolvConf and other servers", []Object{operator(`{"upstreamResolvers": {"upstreams": [{"type": "SystemResolvConf"}, {"type": "Network", "address": "1.1.1.1"}]}}`)}, []string{
			"dns.operator/default upstreamResolvers! the site's servers and others together",
		}},
		{"operator, malformed", []Object{operator(`{"servers": [{"zones": 1}, {"zones": ["a.example", "", "x/y"], "forwardPlugin": {"upstreams": []}},
			{"zones": ["b.example"], "forwardPlugin": {"upstreams": ["1.1.1.1"], "transportConfig": {"transport": "TLS"}}},
			{"zones": ["c.example"], "forwardPlugin": {"upstreams": ["1.1.1.1"], "transportConfig": {"transport": "QUIC"}}},
			{"zones": ["d.example", "d.example"], "forwardPlugin": {"upstreams": ["1.1.1.1"]}}], "upstreamResolvers": {"upstreams": [{"type": "New"}]}}`)}, []string{
			"dns.operator/default servers[4]: d.example. => 1.1.1.1",
			`dns.operator/default servers[0]! expected zones and a forwardPlugin: "json: cannot unmarshal number into Go struct field operatorServer.zones of type []string"`,
			`dns.operator/default servers[1]! zone "": expected a domain name`, `dns.operator/default servers[1]! zone "x/y": expected a domain name`,
			"dns.operator/default servers[1]! expected at least one server",
			"dns.operator/default servers[2]! TLS without a serverName: the servers cannot be verified",
			`dns.operator/default servers[3]! transport "QUIC": expected Cleartext or TLS`,
			"dns.operator/default servers[4]! dns.operator/default servers[4] also forwards d.example",
			`dns.operator/default upstreamResolvers! upstream of type "New": expected SystemResolvConf or Network`,
		}},
		{"two objects", []Object{object("kube-dns", "upstreamNameservers", `["8.8.8.8"]`), blockOf(".", "forward . 9.9.9.9")}, []string{
			"Corefile:2: . => 9.9.9.9", "kube-dns upstreamNameservers! the cluster has CoreDNS, which does not read this ConfigMap",
		}},
		{"kube-dns ConfigMap beside CoreDNS, both settings", []Object{blockOf(".", "forward . 9.9.9.9"), object("kube-dns", "stubDomains", `{"corp.example":["1.1.1.1"],"":[]}`, "upstreamNameservers", "[")}, []string{
			"Corefile:2: . => 9.9.9.9", "kube-dns stubDomains! the cluster has CoreDNS, which does not read this ConfigMap",
		}},
		{"kube-dns ConfigMap beside CoreDNS, no settings", []Object{blockOf(".", "forward . 9.9.9.9"), object("kube-dns", "stubDomains", ""), object("kube-proxy", "config.conf", "x")}, []string{
			"Corefile:2: . => 9.9.9.9",
		}},
		{"several Corefiles", []Object{
			object("coredns-old", "Corefile", "a.example {\nforward . 10.0.0.1\n}\n}\n"), blockOf(".", "forward . 9.9.9.9"),
			{Kind: "ConfigMap", Namespace: "networking", Name: "a", Data: map[string]string{"Corefile": "{$X} {\n}\n"}},
		}, []string{
			"Corefile:2: . => 9.9.9.9",
			"coredns-old Corefile! node-dns follows only one Corefile, the one of coredns",
			"ConfigMap networking/a Corefile! node-dns follows only one Corefile, the one of coredns",
		}},
		{"unsafe name", []Object{{Kind: "DNS", Name: "a\nb", Spec: json.RawMessage("x")}}, []string{
			`dns.operator/"a\nb"! expected the spec of a DNS of operator.openshift.io/v1: "invalid character 'x' looking for beginning of value"`,
		}},
	})
}

// TestObjectText: an Object can be saved to a file and read back.
func TestObjectText(t *testing.T) {
	for _, o := range []Object{coredns(kubeadm), operator(`{"servers":[]}`)} {
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var again Object
		if err := json.Unmarshal(data, &again); err != nil || !reflect.DeepEqual(again, o) {
			t.Errorf("%s is read as %v, %v", data, again, err)
		}
	}
}
