package clusterdns

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// readKubeDNS reads the ConfigMap of kube-dns. Without its keys the ConfigMap configures no DNS.
func (r *reader) readKubeDNS(o Object) {
	var stubs map[string]json.RawMessage
	where := o.at(stubKey)
	switch r.readJSON(o, where, o.Data[stubKey], &stubs, "a JSON object of domains with lists of servers") {
	case malformed:
		r.keepUnknown(where)
	case read:
		for _, text := range slices.Sorted(maps.Keys(stubs)) {
			var servers []string
			domain, wrong := parseDomain(text)
			switch {
			case wrong != "" || domain.IsRoot():
				r.report(where, "%s: expected a domain name", quote(text))
				r.keepUnknown(where)
			case json.Unmarshal(stubs[text], &servers) != nil:
				r.reportMalformed(o, where, "%s: expected a list of servers", quote(text))
				r.keep(domain, where)
			default:
				r.addPlain(where, domain, servers)
			}
		}
	}
	var servers []string
	where = o.at(upstreamKey)
	if r.readJSON(o, where, o.Data[upstreamKey], &servers, "a JSON list of servers") == read && len(servers) > 0 {
		r.addPlain(where, dnsname.Root(), servers)
	}
}

// outcome is the result of readJSON.
type outcome int

const (
	absent outcome = iota
	read
	malformed // which is reported
)

// reportLeftOver reports the settings of kube-dns in a cluster that has CoreDNS.
func (r *reader) reportLeftOver(o Object) {
	for _, key := range []string{stubKey, upstreamKey} {
		if o.Data[key] != "" {
			r.report(o.at(key), "the cluster has CoreDNS, which does not read this ConfigMap")
			return
		}
	}
}

// readJSON reads a value of the ConfigMap o, or a part of its spec.
func (r *reader) readJSON(o Object, where, text string, to any, expected string) outcome {
	switch {
	case text == "":
		return absent
	case len(text) > maxValue:
		r.reportMalformed(o, where, "it is longer than %d bytes", maxValue)
		return malformed
	}
	if err := json.Unmarshal([]byte(text), to); err != nil {
		r.reportMalformed(o, where, "expected %s: %s", expected, quote(err.Error()))
		return malformed
	}
	return read
}

// addPlain adds a route to servers without TLS.
func (r *reader) addPlain(where string, domain dnsname.Name, texts []string) {
	r.addServers(where, []dnsname.Name{domain}, r.parseAll(where, texts, parseServer))
}

// parseAll reads servers. It reports each one that it leaves out.
func (r *reader) parseAll(where string, texts []string, parse func(string) (nameserver.Server, string)) []nameserver.Server {
	var servers []nameserver.Server
	for i, text := range texts {
		if i == maxServers {
			r.report(where, "only the first %d servers are used", maxServers)
			break
		}
		server, wrong := parse(text)
		switch {
		case wrong != "":
			r.report(where, "server %s: %s", quote(text), wrong)
		case !slices.Contains(servers, server):
			servers = append(servers, server)
		}
	}
	return servers
}

// addServers adds a route for each domain. Without servers, wider routes must not get the names.
func (r *reader) addServers(where string, domains []dnsname.Name, servers []nameserver.Server) {
	for _, domain := range domains {
		if len(servers) == 0 {
			r.keep(domain, where)
			continue
		}
		r.add(Route{Domain: domain, Servers: servers, Where: where})
	}
}

// operatorSpec is the part of a DNSSpec of operator.openshift.io/v1 that is followed.
type operatorSpec struct {
	Servers   []json.RawMessage `json:"servers"`
	Resolvers json.RawMessage   `json:"upstreamResolvers"`
}

type operatorServer struct {
	Zones   []string `json:"zones"`
	Forward struct {
		Upstreams []string  `json:"upstreams"`
		Transport transport `json:"transportConfig"`
	} `json:"forwardPlugin"`
}

// operatorResolvers is spec.upstreamResolvers.
type operatorResolvers struct {
	Upstreams []struct {
		Type    string `json:"type"` // "SystemResolvConf" or "Network"
		Address string `json:"address"`
		Port    uint16 `json:"port"` // 0: the default of the transport
	} `json:"upstreams"`
	Transport transport `json:"transportConfig"`
}

// transport is how queries reach the servers.
type transport struct {
	Transport string `json:"transport"` // "", "Cleartext" or "TLS"
	TLS       struct {
		ServerName string `json:"serverName"`
		CABundle   struct {
			Name string `json:"name"`
		} `json:"caBundle"`
	} `json:"tls"`
}

// readOperator reads the DNS of OpenShift's DNS operator.
func (r *reader) readOperator(o Object) {
	where := "dns.operator/" + title(o.Name)
	var spec operatorSpec
	switch r.readJSON(o, where, string(o.Spec), &spec, "the spec of a DNS of operator.openshift.io/v1") {
	case absent:
		return
	case malformed:
		r.keepUnknown(where)
		return
	case read:
	}
	for i, text := range spec.Servers {
		r.readOperatorServer(o, fmt.Sprintf("%s servers[%d]", where, i), string(text))
	}
	r.readResolvers(o, where+" upstreamResolvers", string(spec.Resolvers))
}

// readOperatorServer reads an element of spec.servers.
func (r *reader) readOperatorServer(o Object, where, text string) {
	var server operatorServer
	if r.readJSON(o, where, text, &server, "zones and a forwardPlugin") != read {
		r.keepUnknown(where)
		return
	}
	var domains []dnsname.Name
	for _, zone := range server.Zones {
		domain, wrong := parseDomain(zone)
		if wrong != "" || zone == "" {
			r.report(where, "zone %s: expected a domain name", quote(zone))
			r.keepUnknown(where)
			continue
		}
		domains = append(domains, domain)
	}
	r.addServers(where, domains, r.overTransport(where, server.Forward.Upstreams, server.Forward.Transport))
}

// readResolvers reads spec.upstreamResolvers. SystemResolvConf means the servers of the site, for
// which there is no route.
func (r *reader) readResolvers(o Object, where, text string) {
	var resolvers operatorResolvers
	if r.readJSON(o, where, text, &resolvers, "a list of upstreams") != read {
		return
	}
	var texts []string
	hasSystem := false
	for _, u := range resolvers.Upstreams {
		switch {
		case u.Type == "SystemResolvConf":
			hasSystem = true
		case u.Type != "Network":
			r.report(where, "upstream of type %s: expected SystemResolvConf or Network", quote(u.Type))
		case u.Port == 0:
			texts = append(texts, u.Address)
		default:
			texts = append(texts, net.JoinHostPort(u.Address, strconv.Itoa(int(u.Port))))
		}
	}
	switch {
	case len(texts) == 0:
	case hasSystem:
		r.report(where, "the site's servers and others together")
	default:
		r.addServers(where, []dnsname.Name{dnsname.Root()}, r.overTransport(where, texts, resolvers.Transport))
	}
}

// overTransport reads servers. A server with TLS is never used without it.
func (r *reader) overTransport(where string, texts []string, t transport) []nameserver.Server {
	switch {
	case len(texts) == 0:
		r.report(where, "expected at least one server")
		return nil
	case t.Transport == "" || t.Transport == "Cleartext":
		return r.parseAll(where, texts, parseServer)
	case t.Transport != "TLS":
		r.report(where, "transport %s: expected Cleartext or TLS", quote(t.Transport))
		return nil
	case t.TLS.ServerName == "":
		r.report(where, "TLS without a serverName: the servers cannot be verified")
		return nil
	}
	if name := t.TLS.CABundle.Name; name != "" {
		r.report(where, "node-dns verifies the servers with this node's certificate authorities, not with caBundle %s", quote(name))
	}
	return r.parseAll(where, texts, func(text string) (nameserver.Server, string) { return parseTLS(text, t.TLS.ServerName) })
}
