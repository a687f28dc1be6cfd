package lab

// OldHook does the same as 99-origin-dns.sh: for the interface of the default route, it saves the
// nameservers for dnsmasq and for pods unless resolv.conf is its own, starts dnsmasq, and makes
// resolv.conf point to the node. It follows the description of that script's behavior, including
// relevant bugs: it always writes, and in place.
const OldHook = `#!/bin/sh
case $2 in up|dhcp4-change|dhcp6-change) ;; *) exit 0 ;; esac
gateway=$(ip route list match 0.0.0.0/0 | awk '{print $3; exit}')
[ -n "$gateway" ] || exit 0
set -- $(ip route get to "$gateway")
while [ $# -gt 1 ]; do
	[ "$1" = dev ] && iface=$2
	[ "$1" = src ] && node=$2
	shift
done
[ "$DEVICE_IFACE" = "$iface" ] || exit 0
restart=
mark=99-origin-dns.sh
if ! grep -q "$mark" /etc/resolv.conf; then
	servers=$IP4_NAMESERVERS
	[ -n "$servers" ] && [ "$servers" != "$node" ] || servers=$(awk '/^nameserver[ \t]/ {print $2}' /etc/resolv.conf)
	new=$(mktemp)
	for server in $servers; do echo "server=$server"; done >"$new"
	if [ "$(sort "$new")" != "$(sort /etc/dnsmasq.d/origin-upstream-dns.conf 2>/dev/null)" ]; then
		cat "$new" >/etc/dnsmasq.d/origin-upstream-dns.conf
		restart=yes
	fi
	mkdir -p /etc/origin/node
	for server in $servers; do echo "nameserver $server"; done >/etc/origin/node/resolv.conf
	rm "$new"
fi
systemctl -q is-active dnsmasq.service || restart=yes
[ -z "$restart" ] || systemctl restart dnsmasq
systemctl -q is-active dnsmasq.service || exit 0
new=$(mktemp)
grep -q "$mark" /etc/resolv.conf || echo '# nameserver updated by /etc/NetworkManager/dispatcher.d/99-origin-dns.sh' >"$new"
grep -v '^nameserver' /etc/resolv.conf >>"$new"
echo "nameserver $node" >>"$new"
if ! grep -qw search "$new"; then
	echo 'search cluster.local' >>"$new"
elif ! grep -q 'search cluster.local' "$new"; then
	sed -i 's/^search[ \t]/search cluster.local /' "$new"
fi
cat "$new" >/etc/resolv.conf
rm "$new"
`

// DnsmasqService is RHEL's unit, but in the foreground; its users override the file anyway.
const DnsmasqService = `[Unit]
Description=DNS caching server.
After=network.target

[Service]
ExecStart=/usr/sbin/dnsmasq -k

[Install]
WantedBy=multi-user.target
`

// OldDnsmasqConfig is origin-dns.conf of openshift-ansible 3.11.
const OldDnsmasqConfig = `no-resolv
domain-needed
no-negcache
max-cache-ttl=1
enable-dbus
dns-forward-max=10000
cache-size=10000
bind-dynamic
min-port=1024
except-interface=lo
`

// OldNodeConfig has the relevant parts of a node's configuration.
const OldNodeConfig = `kind: NodeConfig
apiVersion: v1
dnsIP: 0.0.0.0
dnsDomain: cluster.local
dnsBindAddress: 127.0.0.1:53
dnsRecursiveResolvConf: /etc/origin/node/resolv.conf
`
