package hostdns

import (
	"fmt"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/resolvconf"
)

// Files in the format of resolv.conf that a configuration names.

// KubeletSearch returns the host's search list, from the kubelet's resolvConf. The kubelet appends
// it to the cluster's search list in pods.
func (p Paths) KubeletSearch(config nodeconfig.Config) []dnsname.Name {
	path := config.KubeletResolvConf
	if path == "" {
		path = p.ResolvConf // the kubelet's default
	}
	var list []dnsname.Name
	for _, domain := range resolvconf.Parse(ReadFile(p.Root, path).Data).SearchLine() {
		if name, err := dnsname.Parse(domain); err == nil && !name.IsRoot() {
			list = append(list, name)
		}
	}
	return list
}

// Recursive returns the nameservers of dnsRecursiveResolvConf. It ignores a file that node-dns
// writes, because the nameservers in it were captured. problem says why servers is empty; it is ""
// if that is normal.
func (p Paths) Recursive(config nodeconfig.Config) (servers []nameserver.Server, problem string) {
	path, usual := config.DNSRecursiveResolvConf, NewPaths("")
	if slices.Contains([]string{"", p.NodeResolvConf, usual.NodeResolvConf, p.ResolvConf, usual.ResolvConf}, path) {
		return nil, ""
	}
	file := ReadFile(p.Root, path)
	if IsOurs(file.Data) {
		return nil, ""
	}
	why := ""
	switch servers = usableServers(file); {
	case file.Err != nil:
		why = file.Err.Error()
	case !file.Exists:
		why = path + " does not exist"
	case len(servers) == 0:
		why = path + " lists no nameserver"
	default:
		return servers, ""
	}
	return nil, fmt.Sprintf("ignoring %s: %s", config.Where("dnsRecursiveResolvConf"), why)
}

// ResolvFiles returns the nameservers of the files of dnsmasq's resolv-file. It ignores files that
// node-dns wrote.
func (p Paths) ResolvFiles(paths []string) (servers []nameserver.Server) {
	for _, path := range paths {
		file := ReadFile(p.Root, path)
		if path != p.ResolvConf && !IsOurs(file.Data) {
			servers = append(servers, usableServers(file)...)
		}
	}
	return servers
}

// usableServers returns the nameservers of a file without unspecified addresses.
func usableServers(file File) (servers []nameserver.Server) {
	for _, addr := range resolvconf.Parse(file.Data).Nameservers() {
		if !addr.IsUnspecified() {
			servers = append(servers, nameserver.FromAddr(addr))
		}
	}
	return servers
}
