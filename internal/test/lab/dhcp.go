package lab

import (
	"fmt"
	"strings"
	"syscall"
)

// DHCPConfig configures a DHCP server.
type DHCPConfig struct {
	Interface string   // in the namespace; it must have its addresses
	Range     string   // "10.77.0.100,10.77.0.199,255.255.255.0"; "" disables DHCPv4
	Router    string   // default gateway; "" means none
	Range6    string   // "fd77::100,fd77::199,64"; "" disables DHCPv6 and router advertisements
	Domain    string   // domain name; "" means none
	Options   []string // further dnsmasq --dhcp-option-force arguments, e.g. "58,3": renew after 3 s (2 did not work)

	Nameservers []string // IPv4 and IPv6; if empty, the option is omitted
}

// DHCPServer is a running DHCP server (dnsmasq).
type DHCPServer struct {
	*Process
	n    *Namespace
	c    DHCPConfig
	opts string // options file, which dnsmasq rereads to offer something else
}

// DHCP starts a DHCP server in the namespace.
func (n *Namespace) DHCP(c DHCPConfig) *DHCPServer {
	n.l.t.Helper()
	Need(n.l.t, "dnsmasq")
	d := &DHCPServer{n: n, c: c, opts: "/run/lab/dhcp-" + c.Interface + ".opts"}
	d.writeOptions()
	argv := []string{
		"dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file", "--log-facility=-", "--log-dhcp",
		"--port=0", "--bind-interfaces", "--interface=" + c.Interface, "--no-ping", "--dhcp-authoritative", "--leasefile-ro",
		"--dhcp-optsfile=" + d.opts,
	}
	if c.Range != "" {
		argv = append(argv, "--dhcp-range="+c.Range+",120")
	}
	if c.Range6 != "" {
		argv = append(argv, "--enable-ra", "--dhcp-range="+c.Range6+",120")
	}
	for _, o := range c.Options {
		argv = append(argv, "--dhcp-option-force="+o)
	}
	d.Process = n.Start(argv...)
	n.l.Await("the DHCP server", func() bool { return strings.Contains(d.Output(), "DHCP") })
	return d
}

// SetNameservers changes the offered nameservers. A client gets them when it renews.
func (d *DHCPServer) SetNameservers(addrs ...string) {
	d.n.l.t.Helper()
	d.c.Nameservers = addrs
	d.writeOptions()
	before := strings.Count(d.Output(), d.opts)
	d.Signal(syscall.SIGHUP)
	d.n.l.Await("the DHCP server to read its options", func() bool { return strings.Count(d.Output(), d.opts) > before })
}

func (d *DHCPServer) writeOptions() {
	d.n.l.t.Helper()
	var v4, v6 []string
	for _, a := range d.c.Nameservers {
		if strings.Contains(a, ":") {
			v6 = append(v6, "["+a+"]")
		} else {
			v4 = append(v4, a)
		}
	}
	var b strings.Builder
	line := func(option string, values ...string) {
		if strings.Join(values, "") != "" {
			fmt.Fprintf(&b, "%s,%s\n", option, strings.Join(values, ","))
		}
	}
	line("option:dns-server", v4...)
	line("option6:dns-server", v6...)
	line("option:router", d.c.Router)
	line("option:domain-name", d.c.Domain)
	line("option6:domain-search", d.c.Domain)
	d.n.l.WriteFile(d.opts, b.String())
}

// Nameserver starts a nameserver in the namespace, on one of its addresses. It answers TXT queries
// for who.test and who.corp.test with its own address and TTL 0, and A queries below up.example
// with 192.0.2.1. Other names do not exist.
func (n *Namespace) Nameserver(addr string) *Process {
	n.l.t.Helper()
	Need(n.l.t, "dnsmasq")
	p := n.Start("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file", "--log-facility=-", "--log-queries",
		"--no-resolv", "--no-hosts", "--bind-interfaces", "--listen-address="+addr,
		"--txt-record=who.test,"+addr, "--txt-record=who.corp.test,"+addr, "--local=/test/", "--address=/up.example/192.0.2.1")
	n.l.Await("the nameserver at "+addr, func() bool { return strings.Contains(p.Output(), "started") })
	return p
}
