package clusterdns

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	"github.com/node-dns/node-dns/internal/dnsname"
	"github.com/node-dns/node-dns/internal/nameserver"
)

// readKubeDNS reads the ConfigMap of kube-dns. One without its keys configures no DNS.
func (s *scope) readKubeDNS(o Object) {
	var stubs map[string]json.RawMessage
	where := o.at(stubKey)
	if s.readJSON(where, o.Data[stubKey], &stubs, "a JSON object of domains with lists of servers") {
		for _, text := range slices.Sorted(maps.Keys(stubs)) {
			var servers []string
			domain, wrong := parseDomain(text)
			switch {
			case wrong != "" || domain.IsRoot():
				s.report(where, "%s: expected a domain name", quote(text))
			case json.Unmarshal(stubs[text], &servers) != nil:
				s.report(where, "%s: expected a list of servers", quote(text))
				s.keep(domain, where)
			default:
				s.addPlain(where, domain, servers)
			}
		}
	}
	var servers []string
	where = o.at(upstreamKey)
	if s.readJSON(where, o.Data[upstreamKey], &servers, "a JSON list of servers") && len(servers) > 0 {
		s.addPlain(where, dnsname.Root(), servers)
	}
}

// readJSON reads a value of a ConfigMap or a spec. An absent one is false and not reported.
func (s *scope) readJSON(where, text string, to any, expected string) bool {
	switch {
	case text == "":
		return false
	case len(text) > maxValue:
		s.report(where, "it is longer than %d bytes", maxValue)
		return false
	}
	if err := json.Unmarshal([]byte(text), to); err != nil {
		s.report(where, "expected %s: %s", expected, quote(err.Error()))
		return false
	}
	return true
}

// addPlain adds a route to servers without TLS.
func (s *scope) addPlain(where string, domain dnsname.Name, texts []string) {
	s.addServers(where, []dnsname.Name{domain}, s.parseAll(where, texts, parseServer))
}

// parseAll reads servers. It reports each one that it leaves out.
func (s *scope) parseAll(where string, texts []string, parse func(string) (nameserver.Server, string)) []nameserver.Server {
	var servers []nameserver.Server
	for i, text := range texts {
		if i == maxServers {
			s.report(where, "only the first %d servers are used", maxServers)
			break
		}
		server, wrong := parse(text)
		switch {
		case wrong != "":
			s.report(where, "server %s: %s", quote(text), wrong)
		case !slices.Contains(servers, server):
			servers = append(servers, server)
		}
	}
	return servers
}

// addServers adds a route for each domain. Without servers, wider routes must not get the names.
func (s *scope) addServers(where string, domains []dnsname.Name, servers []nameserver.Server) {
	for _, domain := range domains {
		if len(servers) == 0 {
			s.keep(domain, where)
			continue
		}
		s.add(Route{Domain: domain, Servers: servers, Where: where})
	}
}

// operatorSpec is the part of a DNSSpec of operator.openshift.io/v1 that is followed.
type operatorSpec struct {
	Servers   []json.RawMessage `json:"servers"`
	Resolvers json.RawMessage   `json:"upstreamResolvers"`
}

// operatorServer is an element of spec.servers.
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
func (s *scope) readOperator(o Object) {
	where := "dns.operator/" + title(o.Name)
	var spec operatorSpec
	if !s.readJSON(where, string(o.Spec), &spec, "the spec of a DNS of operator.openshift.io/v1") {
		return
	}
	for i, text := range spec.Servers {
		s.readOperatorServer(fmt.Sprintf("%s servers[%d]", where, i), string(text))
	}
	s.readResolvers(where+" upstreamResolvers", string(spec.Resolvers))
}

// readOperatorServer reads an element of spec.servers.
func (s *scope) readOperatorServer(where, text string) {
	var server operatorServer
	if !s.readJSON(where, text, &server, "zones and a forwardPlugin") {
		return
	}
	var domains []dnsname.Name
	for _, zone := range server.Zones {
		domain, wrong := parseDomain(zone)
		if wrong != "" || zone == "" {
			s.report(where, "zone %s: expected a domain name", quote(zone))
			continue
		}
		domains = append(domains, domain)
	}
	s.addServers(where, domains, s.overTransport(where, server.Forward.Upstreams, server.Forward.Transport))
}

// readResolvers reads spec.upstreamResolvers. SystemResolvConf means the servers of the site, for
// which there is no route.
func (s *scope) readResolvers(where, text string) {
	var resolvers operatorResolvers
	if !s.readJSON(where, text, &resolvers, "a list of upstreams") {
		return
	}
	var texts []string
	hasSystem := false
	for _, u := range resolvers.Upstreams {
		switch {
		case u.Type == "SystemResolvConf":
			hasSystem = true
		case u.Type != "Network":
			s.report(where, "upstream of type %s: expected SystemResolvConf or Network", quote(u.Type))
		case u.Port == 0:
			texts = append(texts, u.Address)
		default:
			texts = append(texts, net.JoinHostPort(u.Address, strconv.Itoa(int(u.Port))))
		}
	}
	switch {
	case len(texts) == 0:
	case hasSystem:
		s.report(where, "the site's servers and others together")
	default:
		s.addServers(where, []dnsname.Name{dnsname.Root()}, s.overTransport(where, texts, resolvers.Transport))
	}
}

// overTransport reads servers. One that is reached over TLS is never used without.
func (s *scope) overTransport(where string, texts []string, t transport) []nameserver.Server {
	switch {
	case len(texts) == 0:
		s.report(where, "expected at least one server")
		return nil
	case t.Transport == "" || t.Transport == "Cleartext":
		return s.parseAll(where, texts, parseServer)
	case t.Transport != "TLS":
		s.report(where, "transport %s: expected Cleartext or TLS", quote(t.Transport))
		return nil
	case t.TLS.ServerName == "":
		s.report(where, "TLS without a serverName: the servers cannot be verified")
		return nil
	}
	if name := t.TLS.CABundle.Name; name != "" {
		s.report(where, "node-dns verifies the servers with this node's certificate authorities, not with caBundle %s", quote(name))
	}
	return s.parseAll(where, texts, func(text string) (nameserver.Server, string) { return parseTLS(text, t.TLS.ServerName) })
}
