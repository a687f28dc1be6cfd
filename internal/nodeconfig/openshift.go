package nodeconfig

import (
	"net/netip"
	"path/filepath"
)

const (
	maxServers  = 64
	maxPrefixes = 64
	maxListen   = 1024
	maxRoutes   = 1000
)

// nodeConfigKeys are the DNS keys of OpenShift 3's NodeConfig (openshift/api legacyconfig/v1), with
// the validation of openshift/origin 3.11. The *Arguments come last, because they override all
// others.
var nodeConfigKeys = []key[Config]{
	{name: "dnsDomain", read: readClusterDomain},
	{name: "dnsIP", read: readDNSIP},
	{name: "dnsBindAddress", read: func(r *reader, v value, c *Config) { c.DNSBindAddress, _ = one(r, v, asBind) }},
	{name: "dnsNameservers", read: func(r *reader, v value, c *Config) { c.DNSNameservers, _ = many(r, v, maxServers, asIPPort) }},
	{name: "dnsRecursiveResolvConf", read: func(r *reader, v value, c *Config) { c.DNSRecursiveResolvConf = readPath(r, v) }},
	{name: "masterKubeConfig", read: func(r *reader, v value, c *Config) { c.MasterKubeConfig = readPath(r, v) }},
	{name: "nodeIP", read: readNodeIP},
	{name: "nodeName", read: readNodeName},
	{name: "kubeletArguments", keys: kubeletArguments},
	{name: "proxyArguments", keys: []key[Config]{
		{name: "cluster-cidr", read: func(r *reader, v value, c *Config) {
			c.PodCIDRs, _ = flagValues(r, v, maxPrefixes, asPrefix)
		}},
	}},
}

// kubeletArguments are kubelet flags, each with a list of values.
var kubeletArguments = []key[Config]{
	{name: "cluster-domain", read: func(r *reader, v value, c *Config) {
		// OpenShift uses the first one for its own nameserver.
		if element, ok := r.first(v); ok {
			readClusterDomain(r, element, c)
		}
	}},
	{name: "cluster-dns", read: func(r *reader, v value, c *Config) {
		c.DNSIPs, _ = flagValues(r, v, maxServers, asIP)
	}},
	{name: "node-ip", read: readNodeIPFlag},
	{name: "hostname-override", read: func(r *reader, v value, c *Config) {
		if element, ok := r.first(v); ok {
			readNodeName(r, element, c)
		}
	}},
	{name: "resolv-conf", read: func(r *reader, v value, c *Config) {
		// The only path that OpenShift does not rewrite. The kubelet opens it relative to its
		// working directory, which is "/".
		if element, ok := r.first(v); ok {
			text, _ := one(r, element, asPath)
			c.KubeletResolvConf = r.path(filepath.Join("/", text))
		}
	}},
}

func readClusterDomain(r *reader, v value, c *Config) { c.ClusterDomain, _ = one(r, v, asDomain) }

func readNodeIP(r *reader, v value, c *Config) { c.NodeIP, _ = one(r, v, asNodeIP) }

func readDNSIP(r *reader, v value, c *Config) {
	if addr, ok := one(r, v, asIP); ok {
		c.DNSIPs = []netip.Addr{addr}
	}
}

// readNodeIPFlag uses the first address of a dual-stack pair. To the kubelet an unspecified
// --node-ip means "the default address of this family", so it sets no particular address.
func readNodeIPFlag(r *reader, v value, c *Config) {
	addrs, ok := flagValues(r, v, maxServers, asIP)
	if ok && !addrs[0].IsUnspecified() {
		c.NodeIP = addrs[0]
	}
}

func readPath(r *reader, v value) string {
	text, ok := one(r, v, asPath)
	if !ok {
		return ""
	}
	return r.path(text)
}

// first returns the first value of a flag that takes one.
func (r *reader) first(v value) (value, bool) {
	elements, ok := r.list(v, maxServers, "a list of strings")
	if !ok || len(elements) == 0 {
		return value{}, false
	}
	return elements[0], true
}
