package hostdns

import (
	"testing"

	"github.com/node-dns/node-dns/internal/upstream"
)

// FuzzPlanIsStable: whatever bytes are in resolv.conf, NetworkManager's file and the saved
// original, a second plan is empty, every nameserver line names only the node's address, and
// unknown lines are kept (checkLaws).
func FuzzPlanIsStable(f *testing.F) {
	for _, text := range []string{
		"", generated, oursText, stubText, LegacyWatermark + "\nnameserver " + nodeIP, Watermark + "\r\nsearch a\r\n",
		"nameserver 10.0.0.2 # c\nnameserver\n nameserver 8.8.8.8\nsearch . a. A\ndomain x\n", "\xff\x00\r\r\n;\nsearch a/b\n",
		"nameserver 10.0.0.2\rnameserver 6.6.6.6\nsearch CLUSTER.local\n", "nameserver fe80::1%e\x01\nnameserver ::ffff:10.0.0.2\n",
	} {
		f.Add([]byte(text), []byte(generated), []byte(""), byte(0))
		f.Add([]byte(generated), []byte(text), []byte(text), byte(31))
		f.Add([]byte(text), []byte(generated), []byte(generated), byte(32+128+1))
		f.Add([]byte(text), []byte(""), []byte(generated), byte(64+4))
	}
	f.Fuzz(func(t *testing.T, resolvConf, networkManagerConf, original []byte, world byte) {
		s := host(withResolvConf(file(string(resolvConf))), withNetworkManagerConf(file(string(networkManagerConf))))
		if world&1 != 0 {
			withCaptured("10.0.7.7")(&s)
		}
		if world&2 != 0 {
			withNetworkManager(dnsConfig("eth0", "10.0.8.8", "dhcp.example"))(&s)
		}
		if world&4 != 0 && !IsOurs(original) {
			withOriginal(file(string(original)))(&s)
		}
		if world&8 != 0 {
			s.NetworkManagerConf = File{}
		}
		if world&16 != 0 {
			withNodeResolvConf(file(string(original)))(&s)
			withUpstreams(file(string(networkManagerConf)))(&s)
		}
		if world&32 != 0 {
			withConfigFault(errFault)(&s)
		}
		if world&64 != 0 {
			withoutKernel()(&s)
		}
		if world&128 != 0 {
			withoutDefaultRoute()(&s)
		}
		if world&32 != 0 {
			withUplinks(file(string(networkManagerConf)))(&s)
		}
		if world&64 != 0 {
			withOriginal(link("../run/systemd/resolve/stub-resolv.conf", stubText))(&s)
		}
		if world&128 != 0 {
			withRecord(upstream.NetworkManager, "", upstream.Set{Servers: servers("10.0.7.7")})(&s)
			withPointed("10.0.0.2 " + nodeIP + " 10.0.7.7")(&s)
		}
		checkLaws(t, s)
	})
}
