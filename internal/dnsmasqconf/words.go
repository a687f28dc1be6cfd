package dnsmasqconf

import "strings"

// argument says whether an option takes an argument.
type argument int

const (
	bare   argument = iota // none
	valued                 // always
	either
)

// word is an option of dnsmasq.
type word struct {
	argument argument
	once     bool   // dnsmasq does not start if it occurs twice
	aside    string // why it has no effect here; "" if it does
	met      string // why it always applies here; such an option is not reported
}

// Features that node-dns does not have.
const (
	dhcp           = "node-dns has no DHCP: the package dnsmasq serves it beside node-dns, with port=0"
	tftp           = "node-dns has no TFTP: the package dnsmasq serves it beside node-dns, with port=0"
	advertisements = "node-dns has no router advertisements: use the package dnsmasq, with port=0, or radvd"
)

// group lists options with the same effect. "name" takes no argument, "name=" takes one, and
// "name[=]" may take one. With "!" in front, dnsmasq does not start if it occurs twice.
type group struct{ aside, met, options string }

// words are all options of dnsmasq 2.90, according to its --help and --test.
var words = wordsOf([]group{
	{options: `
		addn-hosts= address= alias= all-servers bogus-nxdomain= bogus-priv caa-record= !cache-size[=]
		cname= conf-dir= conf-file[=] !dns-forward-max= dns-rr= domain= domain-needed domain-suffix=
		!edns-packet-max= except-interface= expand-hosts filter-A filter-AAAA filterwin2k host-record=
		hostsdir= ignore-address= interface= listen-address= local= !local-ttl= localise-queries
		log-queries[=] !max-cache-ttl= !max-port= !max-ttl= !min-cache-ttl= !min-port= mx-host=
		!mx-target= naptr-record= !neg-ttl= no-hosts no-negcache no-resolv !port= ptr-record=
		rebind-domain-ok= rebind-localhost-ok resolv-file[=] rev-server= server= srv-host=
		stop-dns-rebind txt-record= !use-stale-cache[=]`},
	{met: "changes are always detected, and outdated answers removed", options: `clear-on-reload no-poll`},
	{met: "node-dns always binds single addresses, as they appear", options: `bind-dynamic bind-interfaces`},
	{met: "dbus in node-dns.yaml chooses the bus names", options: `!enable-dbus[=]`},
	{met: "loops are always detected", options: `dns-loop-detect`},
	{met: "servers are always queried in order, those that are down last", options: `strict-order`},
	{met: "systemd decides: node-dns.service has Type=notify", options: `keep-in-foreground`},
	{met: "the upstream's AD bit is always passed on to clients that ask for it", options: `proxy-dnssec`},
	{aside: dhcp, options: `
		bootp-dynamic[=] bridge-interface= !dhcp-alternate-port[=] dhcp-authoritative dhcp-boot=
		dhcp-broadcast[=] dhcp-circuitid= dhcp-client-update !dhcp-duid= dhcp-fqdn
		dhcp-generate-names[=] dhcp-host= dhcp-hostsdir= dhcp-hostsfile= dhcp-ignore= dhcp-ignore-clid
		dhcp-ignore-names[=] !dhcp-lease-max= !dhcp-leasefile[=] dhcp-luascript= dhcp-mac= dhcp-match=
		dhcp-name-match= dhcp-no-override dhcp-option= dhcp-option-force= dhcp-optsdir= dhcp-optsfile=
		dhcp-proxy[=] dhcp-pxe-vendor= dhcp-range= dhcp-rapid-commit dhcp-relay= dhcp-remoteid=
		!dhcp-reply-delay= !dhcp-script= !dhcp-scriptuser= dhcp-sequential-ip dhcp-subscrid= !dhcp-ttl=
		dhcp-userclass= dhcp-vendorclass= leasefile-ro log-dhcp no-dhcp-interface= no-dhcpv4-interface=
		no-dhcpv6-interface= no-ping pxe-prompt= pxe-service= quiet-dhcp quiet-dhcp6 read-ethers
		script-arp script-on-renewal shared-network= tag-if=`},
	{aside: tftp, options: `
		enable-tftp[=] quiet-tftp tftp-lowercase !tftp-max= !tftp-mtu= tftp-no-blocksize tftp-no-fail
		!tftp-port-range= tftp-root= tftp-secure tftp-single-port tftp-unique-root[=]`},
	{aside: "node-dns does not validate, and passes signatures through", options: `
		dnssec dnssec-check-unsigned[=] dnssec-debug !dnssec-limits= dnssec-no-timecheck
		!dnssec-timestamp= trust-anchor=`},
	{aside: "node-dns is not authoritative for any zone", options: `
		auth-peer= auth-sec-servers= !auth-server= !auth-soa= !auth-ttl= auth-zone=`},
	{aside: "upstreams never learn about clients", options: `!add-cpe-id= add-mac[=] !add-subnet[=] strip-mac strip-subnet !umbrella[=]`},
	{aside: "answers are not passed to the kernel", options: `connmark-allowlist= !connmark-allowlist-enable[=] conntrack ipset= nftset=`},
	{aside: "node-dns has no such logs", options: `!dumpfile= !dumpmask= log-debug`},
	{aside: "node-dns has no such records", options: `dynamic-host= interface-name= synth-domain=`},
	{aside: "only valid on the command line", options: `help test version`},
	{aside: advertisements, options: `enable-ra quiet-ra ra-param=`},
	{aside: "MX records are not generated: use mx-host", options: `localmx selfmx`},
	{aside: "systemd decides: node-dns.service has User=node-dns", options: `!group[=] !user[=]`},
	{aside: "the log is in the journal: journalctl -u node-dns", options: `!log-async[=] !log-facility=`},
	{aside: "a fixed source port makes responses easy to forge (CVE-2008-1447): use max-port and min-port", options: `!query-port=`},
	{aside: "addresses keep the upstream's order", options: `no-round-robin`},
	{aside: "allowFrom in node-dns.yaml decides; the default is local networks", options: `!local-service[=]`},
	{aside: "each query has a random source port anyway", options: `!port-limit=`},
	{aside: "move its lines to a file of the configuration directory", options: `!servers-file=`},
	{aside: "no program is run for the configuration", options: `conf-script=`},
	{aside: "node-dns accepts 1,000, or a quarter of the files that it may open", options: `!max-tcp-connections=`},
	{aside: "node-dns does not use ubus", options: `!enable-ubus[=]`},
	{aside: "only A and AAAA can be filtered (filter-A, filter-AAAA)", options: `filter-rr=`},
	{aside: "records of all types are cached anyway", options: `cache-rr=`},
	{aside: "systemd decides: node-dns.service has Type=notify", options: `no-daemon`},
	{aside: "systemd tracks the process: systemctl show -p MainPID node-dns", options: `!pid-file[=]`},
	{aside: "the next server is always queried if one is silent for 250 ms", options: `!fast-dns-retry[=]`},
	{aside: "version.bind and similar names are only answered to this host", options: `no-ident`},
})

func wordsOf(groups []group) map[string]word {
	all := map[string]word{}
	for _, g := range groups {
		for name := range strings.FieldsSeq(g.options) {
			w := word{aside: g.aside, met: g.met}
			name, w.once = strings.CutPrefix(name, "!")
			if rest, ok := strings.CutSuffix(name, "[=]"); ok {
				name, w.argument = rest, either
			} else if rest, ok := strings.CutSuffix(name, "="); ok {
				name, w.argument = rest, valued
			}
			all[name] = w
		}
	}
	return all
}
