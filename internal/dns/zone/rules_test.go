package zone_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

func never(t testing.TB) dnsserver.Handler {
	return dnsserver.HandlerFunc(func(_ context.Context, q *dnsserver.Query) (*dns.Msg, error) {
		t.Errorf("Next was asked for %s", q.Msg.Question[0].Name)
		return new(dns.Msg), nil
	})
}

const shop = `
namespace shop
namespace empty
service  default/kubernetes 172.30.0.1 https:443
service  shop/web 172.30.0.10 fd00:30::10 http:80 dns:53 dns:53/udp
slice    shop/web-1 web http:8080 10.1.0.1 10.1.0.2=www !10.1.0.3
service  shop/idle 172.30.0.11 http:80
headless shop/db
slice    shop/db-4 db sql:5432 any:0 10.2.0.1=db-0@Zone-A 10.2.0.2@zone-b+db-x !10.2.0.3=db-2
slice    shop/db-6 db sql:5432 fd00:2::1=db-0 fd00:2::
headless shop/peers publish
slice    shop/peers-1 peers gossip:7946/udp !10.3.0.1
headless shop/pair
slice    shop/pair-1 pair a:1 10.4.0.1=one 10.4.0.2
slice    shop/pair-2 pair b:2 10.4.0.1=one 10.4.0.2
headless shop/multi
slice    shop/multi-1 multi a:1 b:2 :3 10.7.0.1
headless hidden/secret
slice    hidden/secret-1 secret p:1 10.5.0.1=s
external shop/mail mx.example.com smtp:25
external shop/alias web.shop.svc.cluster.local
external shop/alias-alias alias.shop.svc.cluster.local
external shop/dangling nothing.shop.svc.cluster.local
external shop/a b.shop.svc.cluster.local
external shop/b a.shop.svc.cluster.local
external shop/inner web.shop.svc.cluster.local http:80 admin:8080
external shop/inner-pair Pair.shop.svc.cluster.local a:1
external shop/inner-mail mail.shop.svc.cluster.local smtp:25
external shop/inner-idle idle.shop.svc.cluster.local http:80
external shop/inner-left left.shop.svc.cluster.local http:80
external shop/left www.example.com
slice    shop/left-1 left http:80 10.9.8.8
service  shop/plain 172.30.0.12 80
external shop/literal 192.0.2.7 http:80
external shop/literal6 2001:db8::7
pod      shop/db-0 10.2.0.1 fd00:2::1
pod      pods/alone 10.6.0.1
namespace pod
`

const (
	soa     = "cluster.local. 5 SOA ns.dns.cluster.local. hostmaster.cluster.local. 1700000000 7200 1800 86400 5"
	soa311  = "cluster.local. 60 SOA ns.dns.cluster.local. hostmaster.cluster.local. 1700000000 28800 7200 604800 60"
	absent  = ";; NXDOMAIN\n;; flags aa rd ra\n;; AUTHORITY\n" + soa
	nodata  = ";; flags aa rd ra\n;; AUTHORITY\n" + soa
	absent3 = ";; NXDOMAIN\n;; AUTHORITY\n" + soa311
	nodata3 = ";; AUTHORITY\n" + soa311
)

func openShift(c *zone.Config) { c.Profile = zone.OpenShift }

func networks(c *zone.Config) {
	c.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("172.30.0.0/15"), netip.MustParsePrefix("fd00:30::/108")}
	c.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/12"), netip.MustParsePrefix("10.64.0.1/32")}
}

// TestRules sends questions that the peers' cases do not cover.
func TestRules(t *testing.T) {
	tests := []struct {
		name   string
		change func(*zone.Config)
		ask    string
		qtype  uint16
		want   string
	}{
		// The apex, and names that are the zone's own.
		{"apex SOA", nil, "cluster.local.", dns.TypeSOA, ";; flags aa rd ra\n" + soa},
		{"apex NS", nameservers, "cluster.local.", dns.TypeNS, "cluster.local. 5 NS ns.dns.cluster.local.\n;; ADDITIONAL\nns.dns.cluster.local. 5 A 172.30.0.2\nns.dns.cluster.local. 5 AAAA fd00:30::2"},
		{"apex NS without addresses", nil, "cluster.local.", dns.TypeNS, "cluster.local. 5 NS ns.dns.cluster.local."},
		{"apex DS", nil, "cluster.local.", dns.TypeDS, nodata},
		{"nameserver", nameservers, "NS.dns.cluster.local.", dns.TypeAAAA, "ns.dns.cluster.local. 5 AAAA fd00:30::2"},
		{"nameserver TXT", nameservers, "ns.dns.cluster.local.", dns.TypeTXT, nodata},
		{"below the nameserver", nameservers, "x.ns.dns.cluster.local.", dns.TypeA, absent},
		{"next to the nameserver", nameservers, "x.dns.cluster.local.", dns.TypeA, absent},
		{"above the nameserver", nameservers, "dns.cluster.local.", dns.TypeA, nodata},
		{"version", nil, "dns-version.cluster.local.", dns.TypeTXT, `dns-version.cluster.local. 28800 TXT "1.1.0"`},
		{"below the version", nil, "x.dns-version.cluster.local.", dns.TypeTXT, absent},
		{"no such subdomain", nil, "a.b.nowhere.cluster.local.", dns.TypeA, absent},
		{"second domain", second, "web.shop.svc.Other.Test.", dns.TypeA, "web.shop.svc.other.test. 5 A 172.30.0.10"},
		{"negative in the second domain", second, "x.shop.svc.other.test.", dns.TypeA, ";; NXDOMAIN\n;; AUTHORITY\nother.test. 5 SOA ns.dns.other.test. hostmaster.other.test. 1700000000 7200 1800 86400 5"},
		{"TTLs", ttls, "web.shop.svc.cluster.local.", dns.TypeA, "web.shop.svc.cluster.local. 7 A 172.30.0.10"},
		{"negative TTL", ttls, "x.shop.svc.cluster.local.", dns.TypeA, ";; NXDOMAIN\n;; AUTHORITY\ncluster.local. 0 SOA ns.dns.cluster.local. hostmaster.cluster.local. 1700000000 7200 1800 86400 0"},

		// Services.
		{"namespace of a Service without an object", nil, "default.svc.cluster.local.", dns.TypeA, nodata},
		{"namespace without Services", nil, "empty.svc.cluster.local.", dns.TypeA, nodata},
		{"no such namespace", nil, "nowhere.svc.cluster.local.", dns.TypeA, absent},
		{"hidden namespace", exposed, "hidden.svc.cluster.local.", dns.TypeA, absent},
		{"hidden Service", exposed, "secret.hidden.svc.cluster.local.", dns.TypeA, absent},
		{"exposed Service", exposed, "web.shop.svc.cluster.local.", dns.TypeA, "web.shop.svc.cluster.local. 5 A 172.30.0.10"},
		{"ANY", nil, "web.shop.svc.cluster.local.", dns.TypeANY, `web.shop.svc.cluster.local. 5 HINFO "RFC8482" ""`},
		{"ANY of a missing name", nil, "x.shop.svc.cluster.local.", dns.TypeANY, absent},
		{"ANY of an ExternalName", nil, "mail.shop.svc.cluster.local.", dns.TypeANY, `mail.shop.svc.cluster.local. 5 HINFO "RFC8482" ""`},
		{"SRV of one port twice", nil, "web.shop.svc.cluster.local.", dns.TypeSRV, "web.shop.svc.cluster.local. 5 SRV 0 16 80 web.shop.svc.cluster.local.\nweb.shop.svc.cluster.local. 5 SRV 0 16 53 web.shop.svc.cluster.local.\n;; ADDITIONAL\nweb.shop.svc.cluster.local. 5 A 172.30.0.10\nweb.shop.svc.cluster.local. 5 AAAA fd00:30::10"},
		{"SRV of the other protocol", nil, "_http._udp.web.shop.svc.cluster.local.", dns.TypeSRV, absent},
		{"SRV of an unknown protocol", nil, "_http._zzz.web.shop.svc.cluster.local.", dns.TypeSRV, absent},
		{"no port without a name", nil, "_._tcp.web.shop.svc.cluster.local.", dns.TypeSRV, absent},
		{"port without a name", nil, "_._tcp.plain.shop.svc.cluster.local.", dns.TypeSRV, "_._tcp.plain.shop.svc.cluster.local. 5 SRV 0 100 80 plain.shop.svc.cluster.local.\n;; ADDITIONAL\nplain.shop.svc.cluster.local. 5 A 172.30.0.12"},
		{"port without a name, the other protocol", nil, "_._udp.plain.shop.svc.cluster.local.", dns.TypeSRV, absent},
		{"port without a name, of an endpoint", nil, "_._tcp.multi.shop.svc.cluster.local.", dns.TypeSRV, "_._tcp.multi.shop.svc.cluster.local. 5 SRV 0 100 3 10-7-0-1.multi.shop.svc.cluster.local.\n;; ADDITIONAL\n10-7-0-1.multi.shop.svc.cluster.local. 5 A 10.7.0.1"},
		{"port and protocol without underscores", nil, "http.tcp.web.shop.svc.cluster.local.", dns.TypeSRV, absent},
		{"below a port", nil, "_x._http._tcp.web.shop.svc.cluster.local.", dns.TypeSRV, absent},
		{"A of a port", nil, "_http._tcp.web.shop.svc.cluster.local.", dns.TypeA, "_http._tcp.web.shop.svc.cluster.local. 5 A 172.30.0.10"},
		{"endpoint of a ClusterIP by hostname", nil, "www.web.shop.svc.cluster.local.", dns.TypeA, "www.web.shop.svc.cluster.local. 5 A 10.1.0.2"},
		{"unready endpoint of a ClusterIP", nil, "10-1-0-3.web.shop.svc.cluster.local.", dns.TypeA, absent},
		{"without endpoints", nil, "idle.shop.svc.cluster.local.", dns.TypeA, "idle.shop.svc.cluster.local. 5 A 172.30.0.11"},
		{"without endpoints, ignored", ignoreEmpty, "idle.shop.svc.cluster.local.", dns.TypeA, absent},
		{"with endpoints, not ignored", ignoreEmpty, "web.shop.svc.cluster.local.", dns.TypeAAAA, "web.shop.svc.cluster.local. 5 AAAA fd00:30::10"},

		// Headless services.
		{"both families", nil, "db.shop.svc.cluster.local.", dns.TypeAAAA, "db.shop.svc.cluster.local. 5 AAAA fd00:2::1\ndb.shop.svc.cluster.local. 5 AAAA fd00:2::"},
		{"SRV of a dual-stack host, without port 0", nil, "db.shop.svc.cluster.local.", dns.TypeSRV, "db.shop.svc.cluster.local. 5 SRV 0 25 5432 db-0.db.shop.svc.cluster.local.\ndb.shop.svc.cluster.local. 5 SRV 0 25 5432 10-2-0-2.db.shop.svc.cluster.local.\ndb.shop.svc.cluster.local. 5 SRV 0 25 5432 fd00-2--0.db.shop.svc.cluster.local.\n;; ADDITIONAL\ndb-0.db.shop.svc.cluster.local. 5 A 10.2.0.1\n10-2-0-2.db.shop.svc.cluster.local. 5 A 10.2.0.2\ndb-0.db.shop.svc.cluster.local. 5 AAAA fd00:2::1\nfd00-2--0.db.shop.svc.cluster.local. 5 AAAA fd00:2::"},
		{"duplicate slices", nil, "pair.shop.svc.cluster.local.", dns.TypeA, "pair.shop.svc.cluster.local. 5 A 10.4.0.1\npair.shop.svc.cluster.local. 5 A 10.4.0.2"},
		{"same endpoints with other ports", nil, "pair.shop.svc.cluster.local.", dns.TypeSRV, "pair.shop.svc.cluster.local. 5 SRV 0 25 1 one.pair.shop.svc.cluster.local.\npair.shop.svc.cluster.local. 5 SRV 0 25 1 10-4-0-2.pair.shop.svc.cluster.local.\npair.shop.svc.cluster.local. 5 SRV 0 25 2 one.pair.shop.svc.cluster.local.\npair.shop.svc.cluster.local. 5 SRV 0 25 2 10-4-0-2.pair.shop.svc.cluster.local.\n;; ADDITIONAL\none.pair.shop.svc.cluster.local. 5 A 10.4.0.1\n10-4-0-2.pair.shop.svc.cluster.local. 5 A 10.4.0.2"},
		{"several ports of an endpoint", nil, "multi.shop.svc.cluster.local.", dns.TypeSRV, "multi.shop.svc.cluster.local. 5 SRV 0 33 1 10-7-0-1.multi.shop.svc.cluster.local.\nmulti.shop.svc.cluster.local. 5 SRV 0 33 2 10-7-0-1.multi.shop.svc.cluster.local.\nmulti.shop.svc.cluster.local. 5 SRV 0 33 3 10-7-0-1.multi.shop.svc.cluster.local.\n;; ADDITIONAL\n10-7-0-1.multi.shop.svc.cluster.local. 5 A 10.7.0.1"},
		{"protocol alone", nil, "_tcp.db.shop.svc.cluster.local.", dns.TypeSRV, nodata},
		{"protocol that no port has", nil, "_sctp.db.shop.svc.cluster.local.", dns.TypeSRV, absent},
		{"below a host", nil, "x.db-0.db.shop.svc.cluster.local.", dns.TypeA, absent},
		{"hash", nil, "ba9f281a.db.shop.svc.cluster.local.", dns.TypeA, absent},
		{"publishNotReadyAddresses", nil, "peers.shop.svc.cluster.local.", dns.TypeA, "peers.shop.svc.cluster.local. 5 A 10.3.0.1"},
		{"pod name", podNames, "db-x.db.shop.svc.cluster.local.", dns.TypeA, "db-x.db.shop.svc.cluster.local. 5 A 10.2.0.2"},
		{"pod name for a pod with a hostname", podNames, "db-0.db.shop.svc.cluster.local.", dns.TypeA, "db-0.db.shop.svc.cluster.local. 5 A 10.2.0.1"},
		{"address for a pod with a pod name", podNames, "10-2-0-2.db.shop.svc.cluster.local.", dns.TypeA, absent},

		// Zonal names.
		{"pin, in any case", zonal, "zone-a.pin._zone.db.shop.svc.cluster.local.", dns.TypeA, "zone-a.pin._zone.db.shop.svc.cluster.local. 5 A 10.2.0.1"},
		{"pin to a zone without endpoints", zonal, "zone-c.pin._zone.db.shop.svc.cluster.local.", dns.TypeA, nodata},
		{"pin, the other family", zonal, "zone-a.pin._zone.db.shop.svc.cluster.local.", dns.TypeAAAA, nodata},
		{"prefer, the other family", zonal, "zone-a.prefer._zone.db.shop.svc.cluster.local.", dns.TypeAAAA, nodata},
		{"prefer without endpoints", zonal, "zone-c.prefer._zone.db.shop.svc.cluster.local.", dns.TypeA, "zone-c.prefer._zone.db.shop.svc.cluster.local. 5 A 10.2.0.1\nzone-c.prefer._zone.db.shop.svc.cluster.local. 5 A 10.2.0.2"},
		{"neither", zonal, "zone-a.other._zone.db.shop.svc.cluster.local.", dns.TypeA, absent},
		{"directive alone", zonal, "pin._zone.db.shop.svc.cluster.local.", dns.TypeA, nodata},
		{"_zone alone", zonal, "_zone.db.shop.svc.cluster.local.", dns.TypeSRV, nodata},
		{"too deep", zonal, "x.zone-a.pin._zone.db.shop.svc.cluster.local.", dns.TypeA, absent},
		{"off", nil, "zone-a.pin._zone.db.shop.svc.cluster.local.", dns.TypeA, absent},

		// ExternalName services.
		{"alias in the cluster", nil, "alias.shop.svc.cluster.local.", dns.TypeA, ";; flags aa rd ra\nalias.shop.svc.cluster.local. 5 CNAME web.shop.svc.cluster.local.\nweb.shop.svc.cluster.local. 5 A 172.30.0.10"},
		{"alias of an alias", nil, "alias-alias.shop.svc.cluster.local.", dns.TypeAAAA, "alias-alias.shop.svc.cluster.local. 5 CNAME alias.shop.svc.cluster.local.\nalias.shop.svc.cluster.local. 5 CNAME web.shop.svc.cluster.local.\nweb.shop.svc.cluster.local. 5 AAAA fd00:30::10"},
		{"alias, another type", nil, "alias.shop.svc.cluster.local.", dns.TypeTXT, ";; flags aa rd ra\nalias.shop.svc.cluster.local. 5 CNAME web.shop.svc.cluster.local.\n;; AUTHORITY\n" + soa},
		{"alias, the CNAME itself", nil, "alias.shop.svc.cluster.local.", dns.TypeCNAME, "alias.shop.svc.cluster.local. 5 CNAME web.shop.svc.cluster.local."},
		{"alias of a missing name", nil, "dangling.shop.svc.cluster.local.", dns.TypeA, ";; NXDOMAIN\n;; flags aa rd ra\ndangling.shop.svc.cluster.local. 5 CNAME nothing.shop.svc.cluster.local.\n;; AUTHORITY\n" + soa},
		{"circle", nil, "a.shop.svc.cluster.local.", dns.TypeA, ";; SERVFAIL\n;; ede 0\n;; flags rd ra"},
		{"below an ExternalName", nil, "x.alias.shop.svc.cluster.local.", dns.TypeA, absent},
		{"address", nil, "literal.shop.svc.cluster.local.", dns.TypeA, absent},
		{"port of an address", nil, "_http._tcp.literal.shop.svc.cluster.local.", dns.TypeSRV, absent},
		{"port of an ExternalName", nil, "_smtp._tcp.mail.shop.svc.cluster.local.", dns.TypeSRV, "_smtp._tcp.mail.shop.svc.cluster.local. 5 SRV 0 100 25 mx.example.com."},
		{"port of an ExternalName that names a ClusterIP", nil, "_http._tcp.inner.shop.svc.cluster.local.", dns.TypeSRV, "_http._tcp.inner.shop.svc.cluster.local. 5 SRV 0 100 80 web.shop.svc.cluster.local.\n;; ADDITIONAL\nweb.shop.svc.cluster.local. 5 A 172.30.0.10\nweb.shop.svc.cluster.local. 5 AAAA fd00:30::10"},
		{"port of an ExternalName that names a headless Service", nil, "_a._tcp.inner-pair.shop.svc.cluster.local.", dns.TypeSRV, "_a._tcp.inner-pair.shop.svc.cluster.local. 5 SRV 0 100 1 Pair.shop.svc.cluster.local.\n;; ADDITIONAL\nPair.shop.svc.cluster.local. 5 A 10.4.0.1\nPair.shop.svc.cluster.local. 5 A 10.4.0.2"},
		{"port of an ExternalName that names an ExternalName", nil, "_smtp._tcp.inner-mail.shop.svc.cluster.local.", dns.TypeSRV, "_smtp._tcp.inner-mail.shop.svc.cluster.local. 5 SRV 0 100 25 mail.shop.svc.cluster.local."},
		{"port of an ExternalName that names an idle ClusterIP", nil, "_http._tcp.inner-idle.shop.svc.cluster.local.", dns.TypeSRV, "_http._tcp.inner-idle.shop.svc.cluster.local. 5 SRV 0 100 80 idle.shop.svc.cluster.local.\n;; ADDITIONAL\nidle.shop.svc.cluster.local. 5 A 172.30.0.11"},
		{"port of an ExternalName that names an idle ClusterIP, ignored", ignoreEmpty, "_http._tcp.inner-idle.shop.svc.cluster.local.", dns.TypeSRV, "_http._tcp.inner-idle.shop.svc.cluster.local. 5 SRV 0 100 80 idle.shop.svc.cluster.local."},
		{"port of an ExternalName that names a Service with old slices", nil, "_http._tcp.inner-left.shop.svc.cluster.local.", dns.TypeSRV, "_http._tcp.inner-left.shop.svc.cluster.local. 5 SRV 0 100 80 left.shop.svc.cluster.local."},
		{"port of an ExternalName, another type", nil, "_smtp._tcp.mail.shop.svc.cluster.local.", dns.TypeA, nodata},
		{"no such port of an ExternalName", nil, "_http._tcp.mail.shop.svc.cluster.local.", dns.TypeSRV, absent},
		{"protocol of an ExternalName", nil, "_tcp.mail.shop.svc.cluster.local.", dns.TypeSRV, nodata},

		// Pods.
		{"namespace of pods alone", nil, "pods.pod.cluster.local.", dns.TypeA, nodata},
		{"pod in no namespace", nil, "10-9-9-9.nowhere.pod.cluster.local.", dns.TypeA, absent},
		{"leading zeros", nil, "10-09-9-9.shop.pod.cluster.local.", dns.TypeA, absent},
		{"three octets", nil, "10-9-9.shop.pod.cluster.local.", dns.TypeA, absent},
		{"octet above 255", nil, "10-9-9-256.shop.pod.cluster.local.", dns.TypeA, absent},
		{"below a pod", nil, "x.10-2-0-1.shop.pod.cluster.local.", dns.TypeA, absent},
		{"verified", verified, "10-2-0-1.shop.pod.cluster.local.", dns.TypeA, "10-2-0-1.shop.pod.cluster.local. 5 A 10.2.0.1"},
		{"verified, IPv6", verified, "fd00-2--1.shop.pod.cluster.local.", dns.TypeAAAA, "fd00-2--1.shop.pod.cluster.local. 5 AAAA fd00:2::1"},
		{"verified, in another namespace", verified, "10-2-0-1.pods.pod.cluster.local.", dns.TypeA, absent},
		{"verified, in a namespace with a common prefix", verified, "10-6-0-1.pod.pod.cluster.local.", dns.TypeA, absent},
		{"verified, hidden", func(c *zone.Config) { exposed(c); verified(c) }, "10-6-0-1.pods.pod.cluster.local.", dns.TypeA, absent},
		{"disabled", disabled, "10-2-0-1.shop.pod.cluster.local.", dns.TypeA, absent},

		// Reverse zones.
		{"reverse apex SOA", networks, "30.172.in-addr.arpa.", dns.TypeSOA, "30.172.in-addr.arpa. 5 SOA ns.dns.30.172.in-addr.arpa. hostmaster.30.172.in-addr.arpa. 1700000000 7200 1800 86400 5"},
		{"reverse apex NS", nameservers, "30.172.in-addr.arpa.", dns.TypeNS, "30.172.in-addr.arpa. 5 NS ns.dns.cluster.local.\n;; ADDITIONAL\nns.dns.cluster.local. 5 A 172.30.0.2\nns.dns.cluster.local. 5 AAAA fd00:30::2"},
		{"second zone of a network between octets", networks, "31.172.in-addr.arpa.", dns.TypeA, reverseNodata("31.172")},
		{"part of an address", networks, "0.30.172.in-addr.arpa.", dns.TypePTR, reverseNodata("30.172")},
		{"unknown address", networks, "99.0.30.172.in-addr.arpa.", dns.TypePTR, reverseAbsent("30.172")},
		{"below an address", networks, "x.10.0.30.172.in-addr.arpa.", dns.TypePTR, reverseAbsent("30.172")},
		{"leading zero", networks, "010.0.30.172.in-addr.arpa.", dns.TypePTR, reverseAbsent("30.172")},
		{"another type", networks, "10.0.30.172.in-addr.arpa.", dns.TypeA, reverseNodata("30.172")},
		{"network of one address", networks, "1.0.64.10.in-addr.arpa.", dns.TypePTR, reverseAbsent("1.0.64.10")},
		{"IPv6", networks, "0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.3.0.0.0.0.d.f.ip6.arpa.", dns.TypePTR, "0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.3.0.0.0.0.d.f.ip6.arpa. 5 PTR web.shop.svc.cluster.local."},
		{"part of an IPv6 address", networks, "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.3.0.0.0.0.d.f.ip6.arpa.", dns.TypePTR, reverse6Nodata},
		{"invalid nibble", networks, "x.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.3.0.0.0.0.d.f.ip6.arpa.", dns.TypePTR, reverse6Absent},
		{"nibble with a leading zero", networks, "00.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.3.0.0.0.0.d.f.ip6.arpa.", dns.TypePTR, reverse6Absent},
		{"endpoint", networks, "2.0.2.10.in-addr.arpa.", dns.TypePTR, "2.0.2.10.in-addr.arpa. 5 PTR 10-2-0-2.db.shop.svc.cluster.local."},
		{"unready endpoint", networks, "3.0.2.10.in-addr.arpa.", dns.TypePTR, reverseAbsent("2.10")},
		{"endpoint in two slices", networks, "1.0.4.10.in-addr.arpa.", dns.TypePTR, "1.0.4.10.in-addr.arpa. 5 PTR one.pair.shop.svc.cluster.local."},
		{"hidden endpoint", func(c *zone.Config) { networks(c); exposed(c) }, "1.0.5.10.in-addr.arpa.", dns.TypePTR, reverseAbsent("5.10")},
		{"known address without a reverse zone", nil, "10.0.30.172.in-addr.arpa.", dns.TypePTR, "10.0.30.172.in-addr.arpa. 5 PTR web.shop.svc.cluster.local."},

		// OpenShift.
		{"wildcard, both families", openShift, "a.b.web.shop.svc.cluster.local.", dns.TypeAAAA, "a.b.web.shop.svc.cluster.local. 30 AAAA fd00:30::10"},
		{"wildcard with unusual bytes", openShift, `a\195\164\.c.web.shop.svc.cluster.local.`, dns.TypeA, `a\195\164\.c.web.shop.svc.cluster.local. 30 A 172.30.0.10`},
		{"wildcard below an ExternalName", openShift, "x.alias.shop.svc.cluster.local.", dns.TypeA, "x.alias.shop.svc.cluster.local. 30 CNAME web.shop.svc.cluster.local.\nweb.shop.svc.cluster.local. 30 A 172.30.0.10"},
		{"no Service", openShift, "x.nothing.shop.svc.cluster.local.", dns.TypeA, absent3},
		{"SRV of both families", openShift, "_http._tcp.web.shop.svc.cluster.local.", dns.TypeSRV, "_http._tcp.web.shop.svc.cluster.local. 30 SRV 10 50 80 f718f41b.web.shop.svc.cluster.local.\n_http._tcp.web.shop.svc.cluster.local. 30 SRV 10 50 80 5cd19401.web.shop.svc.cluster.local.\n;; ADDITIONAL\nf718f41b.web.shop.svc.cluster.local. 30 A 172.30.0.10\n5cd19401.web.shop.svc.cluster.local. 30 AAAA fd00:30::10"},
		{"address in CoreDNS form", openShift, "10-2-0-2.db.shop.svc.cluster.local.", dns.TypeA, "10-2-0-2.db.shop.svc.cluster.local. 30 A 10.2.0.2"},
		{"hash of an address", openShift, "ba9f281a.db.shop.svc.cluster.local.", dns.TypeA, "ba9f281a.db.shop.svc.cluster.local. 30 A 10.2.0.2"},
		{"below a host", openShift, "_sql._tcp.db-0.db.shop.svc.cluster.local.", dns.TypeA, "_sql._tcp.db-0.db.shop.svc.cluster.local. 30 A 10.2.0.1"},
		{"below a port", openShift, "x._http._tcp.web.shop.svc.cluster.local.", dns.TypeA, absent3},
		{"below no port", openShift, "x._nosuch._tcp.web.shop.svc.cluster.local.", dns.TypeA, absent3},
		{"below a port of a headless service", openShift, "x._tcp.db.shop.svc.cluster.local.", dns.TypeA, absent3},
		{"no such port of a headless service", openShift, "_http._tcp.db.shop.svc.cluster.local.", dns.TypeSRV, absent3},
		{"all ports of a protocol", openShift, "_tcp.pair.shop.svc.cluster.local.", dns.TypeSRV, "_tcp.pair.shop.svc.cluster.local. 30 SRV 10 25 1 one.pair.shop.svc.cluster.local.\n_tcp.pair.shop.svc.cluster.local. 30 SRV 10 25 1 de0d3528.pair.shop.svc.cluster.local.\n_tcp.pair.shop.svc.cluster.local. 30 SRV 10 25 2 one.pair.shop.svc.cluster.local.\n_tcp.pair.shop.svc.cluster.local. 30 SRV 10 25 2 de0d3528.pair.shop.svc.cluster.local.\n;; ADDITIONAL\none.pair.shop.svc.cluster.local. 30 A 10.4.0.1\nde0d3528.pair.shop.svc.cluster.local. 30 A 10.4.0.2"},
		{"endpoints of an ExternalName", openShift, "mail.shop.endpoints.cluster.local.", dns.TypeA, absent3},
		{"_endpoints of an ExternalName", openShift, "_endpoints.mail.shop.svc.cluster.local.", dns.TypeA, absent3},
		{"namespace of endpoints", openShift, "shop.endpoints.cluster.local.", dns.TypeA, nodata3},
		{"no namespace of endpoints", openShift, "nowhere.endpoints.cluster.local.", dns.TypeA, absent3},
		{"port of endpoints", openShift, "_http._tcp.web.shop.endpoints.cluster.local.", dns.TypeSRV, "_http._tcp.web.shop.endpoints.cluster.local. 30 SRV 10 50 8080 www.web.shop.endpoints.cluster.local.\n_http._tcp.web.shop.endpoints.cluster.local. 30 SRV 10 50 8080 e189117a.web.shop.endpoints.cluster.local.\n;; ADDITIONAL\nwww.web.shop.endpoints.cluster.local. 30 A 10.1.0.2\ne189117a.web.shop.endpoints.cluster.local. 30 A 10.1.0.1"},
		{"openshift among the endpoints", openShift, "openshift.default.endpoints.cluster.local.", dns.TypeA, nodata3},
		{"local.dns SRV", openShift, "local.dns.cluster.local.", dns.TypeSRV, "local.dns.cluster.local. 30 SRV 10 100 0 9466f869.kubernetes.default.svc.cluster.local.\n;; ADDITIONAL\n9466f869.kubernetes.default.svc.cluster.local. 30 A 172.30.0.1"},
		{"IPv6 address of an ExternalName", openShift, "literal6.shop.svc.cluster.local.", dns.TypeAAAA, "literal6.shop.svc.cluster.local. 30 AAAA 2001:db8::7"},
		{"port of an address of an ExternalName", openShift, "_http._tcp.literal.shop.svc.cluster.local.", dns.TypeSRV, nodata3},
		{"PTR of an endpoint without hostname", func(c *zone.Config) { networks(c); openShift(c) }, "2.0.2.10.in-addr.arpa.", dns.TypePTR, ";; NXDOMAIN\n;; AUTHORITY\n2.10.in-addr.arpa. 60 SOA ns.dns.2.10.in-addr.arpa. hostmaster.2.10.in-addr.arpa. 1700000000 28800 7200 604800 60"},
		{"any namespace of pods", openShift, "nowhere.pod.cluster.local.", dns.TypeA, nodata3},
		{"verified pods", func(c *zone.Config) { openShift(c); verified(c) }, "10-9-9-9.shop.pod.cluster.local.", dns.TypeA, absent3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			resolver := resolverOf(t, shop, test.change)
			got := served{resolver, serve(t, within(resolver, never(t)))}
			if diff := dnstest.Diff(test.want, got.ask(t, test.ask, test.qtype)); diff != "" {
				t.Errorf("%s %s\n%s", test.ask, dns.Type(test.qtype), diff)
			}
		})
	}
}

func nameservers(c *zone.Config) {
	networks(c)
	c.Nameservers = []netip.Addr{netip.MustParseAddr("172.30.0.2"), netip.MustParseAddr("fd00:30::2")}
}

func second(c *zone.Config) {
	other, _ := dnsname.Parse("other.test")
	c.Domains = append(c.Domains, other)
}

func ttls(c *zone.Config)        { c.TTL, c.NegativeTTL = 7*time.Second, 0 }
func exposed(c *zone.Config)     { c.Namespaces = []string{"shop", "default"} }
func ignoreEmpty(c *zone.Config) { c.IgnoreEmptyService = true }
func podNames(c *zone.Config)    { c.EndpointPodNames = true }
func zonal(c *zone.Config)       { c.Zonal = true }
func verified(c *zone.Config)    { c.PodNames = zone.PodsVerified }
func disabled(c *zone.Config)    { c.PodNames = zone.PodsDisabled }

func reverseNodata(zone string) string { return ";; flags aa rd ra\n;; AUTHORITY\n" + reverseSOA(zone) }
func reverseAbsent(zone string) string { return ";; NXDOMAIN\n;; AUTHORITY\n" + reverseSOA(zone) }

func reverseSOA(zone string) string {
	apex := zone + ".in-addr.arpa."
	return apex + " 5 SOA ns.dns." + apex + " hostmaster." + apex + " 1700000000 7200 1800 86400 5"
}

const (
	zone6          = "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.3.0.0.0.0.d.f.ip6.arpa."
	reverse6SOA    = "0." + zone6 + " 5 SOA ns.dns.0." + zone6 + " hostmaster.0." + zone6 + " 1700000000 7200 1800 86400 5"
	reverse6Nodata = ";; AUTHORITY\n" + reverse6SOA
	reverse6Absent = ";; NXDOMAIN\n" + reverse6Nodata
)
