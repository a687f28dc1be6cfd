package dnsmasqconf

import (
	"path/filepath"
	"slices"
	"strings"
)

// stockName is the file that openshift-ansible installs on OpenShift 3 nodes.
const stockName = "origin-dns.conf"

// stock are the lines of openshift-ansible's origin-dns.conf.j2 from 3.4 to 3.11: option=argument,
// or only option. * stands for values of the inventory and the host. Every release has some of
// these lines, always including max-cache-ttl.
var stock = []string{
	"no-resolv", "domain-needed", "no-negcache", "neg-ttl=*", "max-cache-ttl=1", "enable-dbus", "bind-dynamic", "bind-interfaces",
	"dns-forward-max=5000", "dns-forward-max=10000", "cache-size=5000", "cache-size=10000", "min-port=1024",
	"except-interface=*", "listen-address=*",
}

// notOfStock is why two lines of a stock file are ignored. Together they cache nothing for more
// than 1 s, and NXDOMAIN not at all, so that every name from a search list goes upstream again and
// again. They were meant for the cluster's names, which dnsmasq forwarded like all others.
const notOfStock = "openshift-ansible sets it on every node for the cluster's names, which node-dns caches only briefly; " +
	"it takes effect if any line or number of the file is changed"

// isStock reports whether a file is openshift-ansible's own without an admin's changes.
func isStock(name string, data []byte) bool {
	if filepath.Base(name) != stockName {
		return false
	}
	var options []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		option, _, has := strings.Cut(line, "=")
		if !slices.Contains(stock, line) && (!has || !slices.Contains(stock, option+"=*")) {
			return false
		}
		options = append(options, line)
	}
	for _, must := range []string{"no-resolv", "domain-needed", "max-cache-ttl=1"} {
		if !slices.Contains(options, must) {
			return false
		}
	}
	return true
}

// leavesOut reports whether an option of a stock file is ignored.
func leavesOut(option string) bool { return option == "max-cache-ttl" || option == "no-negcache" }
