package nspawn

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/admin/doctor"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// issuer signs certificates.
type issuer struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) issuer {
	t.Helper()
	i := issuer{t: t}
	der, key := i.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "the site's CA"}, NotAfter: time.Now().AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	i.cert, i.key = cert, key
	return i
}

func (i issuer) sign(c *x509.Certificate) (der []byte, key *ecdsa.PrivateKey) {
	i.t.Helper()
	c.SerialNumber, c.NotBefore = big.NewInt(time.Now().UnixNano()), time.Now().AddDate(-1, 0, 0)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	parent, by := i.cert, i.key
	if parent == nil {
		parent, by = c, key
	}
	if der, err = x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by); err != nil {
		i.t.Fatal(err)
	}
	return der, key
}

// pair returns a certificate for a name that expires at a time, and its key, in PEM.
func (i issuer) pair(name string, until time.Time) (cert, key string) {
	i.t.Helper()
	der, private := i.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotAfter: until})
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		i.t.Fatal(err)
	}
	return toPEM("CERTIFICATE", der), toPEM("PRIVATE KEY", text)
}

func toPEM(kind string, data []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
}

// overTLS returns a configuration for site1's nameserver over TLS with this certificate.
func (b *brokenNode) overTLS(cert, key string) string {
	b.t.Helper()
	dir := b.t.TempDir()
	b.l.WriteFile(filepath.Join(dir, "cert.pem"), cert)
	b.l.WriteFile(filepath.Join(dir, "key.pem"), key)
	return "  interface: " + site1 + "@853\n  tls-port: 853\n  tls-service-key: " + dir + "/key.pem\n  tls-service-pem: " + dir + "/cert.pem\n" + world(site1)
}

// TestBrokenTLS breaks an upstream over TLS.
func TestBrokenTLS(t *testing.T) {
	ca := newIssuer(t)
	const name = "dns.site.example"
	good := func(b *brokenNode) {
		b.stop(site1)
		b.start(site1, b.overTLS(ca.pair(name, time.Now().AddDate(1, 0, 0))))
	}
	begin := func(b *brokenNode, server string) {
		const roots = "/etc/ssl/certs/ca-certificates.crt"
		if text := toPEM("CERTIFICATE", ca.cert.Raw); !strings.Contains(b.ReadFile(roots), text) {
			b.WriteFile(roots, b.ReadFile(roots)+text, 0o644)
			b.Run("systemctl", "restart", "node-dns.service")
		}
		b.write("upstreams: [\"" + server + "\"]\n")
		b.forget()
	}
	playAll(t, []breakage{
		{
			name: "the certificate has expired", fault: func(b *brokenNode) {
				b.stop(site1)
				b.start(site1, b.overTLS(ca.pair(name, time.Now().AddDate(0, 0, -1))))
				begin(b, "dns+tls://"+site1+"#"+name)
			},
			check: "upstreams", page: "has a TLS certificate that is not valid now: from ", fix: "renew the certificate at that nameserver", apply: good,
		},
		{
			name: "the certificate is for another name", fault: func(b *brokenNode) { begin(b, "dns+tls://"+site1+"#dns.wrong.example") },
			check: "upstreams", page: "has a TLS certificate for ", says: []string{"not for dns.wrong.example"},
			fix:   "correct upstreams " + nodeDNSYAML + ":1: dns+tls://" + site1 + "#" + name,
			apply: func(b *brokenNode) { b.write("upstreams: [\"dns+tls://" + site1 + "#" + name + "\"]\n") },
		},
	})
}

const kubeconfigFile = "/etc/node-dns/kubeconfig"

// TestBrokenCluster breaks the resolution of the cluster's names.
func TestBrokenCluster(t *testing.T) {
	ca := newIssuer(t)
	var api *kubetest.Server
	serve := func(b *brokenNode) {
		var err error
		if api, err = kubetest.StartAt(apiAddr); err != nil {
			b.t.Fatal(err)
		}
		api.Apply(kubetest.Shop("172.30.0.80") + "\n---\n{apiVersion: v1, kind: Service, metadata: {name: kubernetes, namespace: default}, spec: {clusterIP: 172.30.0.1, ports: [{port: 443}]}}\n")
		api.SetToken("valid")
	}
	withUser := func(b *brokenNode, user string) {
		b.WriteFile(kubeconfigFile, strings.Replace(string(api.Kubeconfig()), "token: valid", user, 1), 0o644)
	}
	clientCertificate := func(until time.Time) string {
		cert, key := ca.pair("system:node:node", until)
		encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
		return "token: valid\n    client-certificate-data: " + encode(cert) + "\n    client-key-data: " + encode(key)
	}
	forwarded := func(addr string) func(b *brokenNode) {
		return func(b *brokenNode) { b.write("clusterDNS: [" + addr + "]\n") }
	}
	defer func() {
		if api != nil {
			api.Close()
		}
	}()
	playAll(t, []breakage{
		{
			name: "clusterDNS is silent", fault: func(b *brokenNode) {
				b.start(clusterNS, world(clusterNS, kubernetesName))
				b.filter("in ip daddr " + clusterNS + " th dport 53 drop")
				forwarded(clusterNS)(b)
			},
			check: "upstreams", page: "does not answer over UDP: no answer within 2s", says: []string{"for cluster.local."},
			fix: "firewalls in between; or configure another one in clusterDNS " + nodeDNSYAML + ":1", apply: (*brokenNode).unfilter,
		},
		{
			name: "clusterDNS is another nameserver", fault: forwarded(site2), check: "cluster", page: "is not the cluster's DNS: it answers that kubernetes.default.svc.cluster.local. does not exist",
			fix: "set the address of the cluster's DNS Service in clusterDNS " + nodeDNSYAML + ":1", apply: forwarded(clusterNS), after: func(b *brokenNode) { b.write("") },
		},
		{
			name: "the API does not accept the credentials", fault: func(b *brokenNode) {
				b.l.Veth("api0", b.lan, "api1")
				b.lan.Run("ip", "link", "set", "api1", "master", "lan0")
				b.l.Addr("api0", "10.77.0.70/24")
				serve(b)
				withUser(b, "token: invalid")
			},
			check: "cluster", page: "does not accept the credentials in /etc/node-dns/kubeconfig (401)", fix: "replace it with a kubeconfig that has valid credentials", apply: func(b *brokenNode) { withUser(b, "token: valid") },
		},
		{
			name: "the client certificate has expired", fault: func(b *brokenNode) { withUser(b, clientCertificate(time.Now().AddDate(0, 0, -1))) },
			check: "cluster", page: "the client certificate of /etc/node-dns/kubeconfig expired at ", fix: "renew any other one in its kubeconfig",
			apply: func(b *brokenNode) { withUser(b, clientCertificate(time.Now().AddDate(1, 0, 0))) },
		},
		{
			name: "the API refuses connections", fault: func(b *brokenNode) {
				b.Run("systemctl", "stop", "node-dns.service")
				b.Run("rm", "-f", "/var/cache/node-dns/cluster.snapshot")
				api.Close()
				b.Run("systemctl", "start", "node-dns.service")
			},
			check: "cluster", page: "this node cannot query the Kubernetes API", says: []string{"connection refused"}, fix: "start the API server: the host of https://" + apiAddr + " is up",
			apply: func(b *brokenNode) { serve(b); withUser(b, "token: valid") },
		},
	})
}

var (
	allowFrom = regexp.MustCompile(`allowFrom: \[.*\]`)
	kill      = regexp.MustCompile(`kill \d+`)
)

// fixOf returns the printed fix of the check's failure, as far as the expression matches.
func (b *brokenNode) fixOf(check string, part *regexp.Regexp) string {
	for _, f := range failures(b.report()) {
		if f.Check == check {
			return part.FindString(f.Fix)
		}
	}
	return ""
}

// squat makes a program listen at the node's address before node-dns does.
func (b *brokenNode) squat(start func()) {
	b.Run("systemctl", "stop", "node-dns.service")
	start()
	b.Await("the port to be taken", func() bool { return b.Run("ss", "-lunH", "src", nodeIP+":53") != "" })
	b.Run("systemctl", "start", "node-dns.service")
}

// addPod adds a pod with a network namespace on the node, 10.129.0.2.
func (b *brokenNode) addPod() {
	b.WriteFile("/etc/NetworkManager/conf.d/pods.conf", "[keyfile]\nunmanaged-devices=interface-name:pods0;interface-name:cni0\n", 0o644)
	b.Run("nmcli", "general", "reload", "conf")
	b.Run("ip", "netns", "add", "pod1")
	b.Run("ip", "link", "add", "cni0", "type", "veth", "peer", "name", "eth0", "netns", "pod1")
	b.Run("ip", "addr", "add", "10.129.0.1/24", "dev", "cni0")
	b.Run("ip", "link", "set", "cni0", "up")
	b.Run("ip", "-n", "pod1", "addr", "add", "10.129.0.2/24", "dev", "eth0")
	b.Run("ip", "-n", "pod1", "link", "set", "eth0", "up")
	b.Run("ip", "-n", "pod1", "route", "add", "default", "via", "10.129.0.1")
}

const squatter = "/usr/sbin/dnsmasq --keep-in-foreground --conf-file=/dev/null --user=root --pid-file= --bind-interfaces --listen-address=" + nodeIP + " --no-resolv --no-hosts --server=" + site1

// TestBrokenHost breaks the node itself.
func TestBrokenHost(t *testing.T) {
	playAll(t, []breakage{
		{
			name: "allowFrom leaves out pods", fault: func(b *brokenNode) {
				b.addPod()
				b.write("allowFrom: [192.0.2.0/24]\npodCIDRs: [10.128.0.0/24, 10.129.0.0/24]\n") // pods0 does not have a network plugin's name
			},
			asks: "www.up.example A", check: "clients", page: "pods may not query this node: allowFrom (allowFrom /etc/node-dns/node-dns.yaml:1) does not include ",
			says: []string{"pods on cni0 have addresses in 10.129.0.0/24", "refused a query (REFUSED) from 10.129.0.2, the address of a pod in /run/netns/pod1"}, fix: "allowFrom: [192.0.2.0/24, ",
			apply: func(b *brokenNode) {
				b.Await("doctor to allow all pods", func() bool {
					b.podAsks("www.up.example A")
					if line := b.fixOf("clients", allowFrom); line != "" {
						b.write(line + "\n")
					}
					return b.resolves()
				})
			},
			after: func(b *brokenNode) {
				b.Run("ip", "netns", "del", "pod1")
				b.write("")
			},
		},
		{
			name: "large answers do not reach a pod", fault: func(b *brokenNode) {
				b.addPod()
				b.Run("ip", "netns", "exec", "pod1", "nft", "add table inet own; add chain inet own in { type filter hook input priority 0; }; add rule inet own in udp sport 53 meta length 600-1300 drop")
			},
			asks: "long.up.example TXT", check: "names", level: doctor.Warn, page: "clients do not get every answer that node-dns has",
			says: []string{"long.up.example. TXT, queried from 10.129.0.2 in /run/netns/pod1"}, fix: "allow UDP and TCP port 53, datagrams of 1232 bytes and fragments between these clients and this node",
			apply: func(b *brokenNode) { b.Run("ip", "netns", "exec", "pod1", "nft", "delete table inet own") },
			after: func(b *brokenNode) { b.Run("ip", "netns", "del", "pod1") },
		},
		{
			name: "NetworkManager is stopped", fault: func(b *brokenNode) { b.Run("systemctl", "stop", "NetworkManager.service") },
			check: "units", page: "NetworkManager.service is enabled but not running (inactive)", fix: "systemctl start NetworkManager",
		},
		{
			name: "a program uses port 53", fault: func(b *brokenNode) {
				b.squat(func() { b.Start(strings.Fields(squatter)...) })
			},
			check: "port", page: ":53 is in use by dnsmasq", fix: "stop it (kill ", apply: func(b *brokenNode) { b.Run("sh", "-ec", b.fixOf("port", kill)) },
		},
		{
			name: "dnsmasq.service uses port 53", fault: func(b *brokenNode) {
				b.WriteFile("/etc/systemd/system/dnsmasq.service", "[Service]\nExecStart="+squatter+"\n[Install]\nWantedBy=multi-user.target\n", 0o644)
				b.Run("systemctl", "daemon-reload")
				b.squat(func() { b.Run("systemctl", "enable", "--now", "dnsmasq.service") })
			},
			check: "port", page: ":53 is in use by dnsmasq of dnsmasq.service", fix: "systemctl disable --now dnsmasq.service",
		},
		{
			name: "a tool overwrites resolv.conf repeatedly", fault: func(b *brokenNode) {
				b.WriteFile("/etc/systemd/system/vpn.service", "[Service]\nExecStart=/bin/sh -c 'while sleep 0.2; do printf \"# Generated by vpn\\\\nnameserver "+site2+"\\\\n\" >/etc/resolv.conf; done'\n", 0o644)
				b.Run("systemctl", "daemon-reload")
				b.Run("systemctl", "start", "vpn.service")
			},
			check: "resolv.conf", page: "/etc/resolv.conf is left alone: ", fix: "stop the tool that writes it, then run origin-dns-dispatcher apply as root",
			apply: func(b *brokenNode) {
				b.Run("systemctl", "stop", "vpn.service")
				b.Run("origin-dns-dispatcher", "apply")
			},
			after: func(b *brokenNode) { b.awaitPointed() },
		},
		{
			name: "the disk is full", fault: func(b *brokenNode) {
				b.Run("systemctl", "stop", "node-dns.service")
				b.Run("mount", "-t", "tmpfs", "-o", "size=64k,mode=755", "tmpfs", "/var/lib/node-dns")
				b.Try("dd", "if=/dev/zero", "of=/var/lib/node-dns/filler", "bs=1k")
				b.Run("systemctl", "start", "node-dns.service")
			},
			check: "storage", page: "/var/lib/node-dns is full: ", fix: "free space: df -h /var/lib/node-dns", apply: func(b *brokenNode) {
				b.Run("mount", "-o", "remount,size=100m", "/var/lib/node-dns")
				b.Run("rm", "-f", "/var/lib/node-dns/filler")
			},
			after: func(b *brokenNode) {
				b.Run("systemctl", "stop", "node-dns.service")
				b.Run("umount", "/var/lib/node-dns")
				b.Run("systemctl", "start", "node-dns.service")
				b.awaitPointed()
			},
		},
		{
			name: "resolv.conf is immutable", fault: func(b *brokenNode) {
				b.Run("systemctl", "stop", "node-dns.service")
				b.Run("chattr", "+i", "/etc/resolv.conf")
				b.Run("systemctl", "start", "node-dns.service")
			},
			check: "resolv.conf", page: "/etc/resolv.conf is immutable: node-dns cannot change it", fix: "chattr -i /etc/resolv.conf", after: func(b *brokenNode) { b.awaitPointed() },
		},
		{
			name: "the hook cannot be executed", fault: func(b *brokenNode) { b.Run("chmod", "644", hookFile) },
			check: "hook", page: "NetworkManager ignores the hook", fix: "chmod 755 " + hookFile,
		},
		{
			name: "node-dns.yaml has three typos", fault: func(b *brokenNode) {
				b.WriteFile(nodeDNSYAML, "upstream: ["+site1+", "+site2+"]\ndomainNeded: true\ndnsforwardmax: 5000\n", 0o644)
			},
			check: "configuration", page: "the configuration has 3 errors", fix: "correct it and verify it with node-dns check-config; the daemon reloads it automatically",
			says: []string{
				nodeDNSYAML + ":1:1: upstream: expected a known key (the nearest is upstreams)",
				nodeDNSYAML + ":2:1: domainNeded: expected a known key (the nearest is domainNeeded)",
				nodeDNSYAML + ":3:1: dnsforwardmax: expected a known key (the nearest is dnsForwardMax)",
			},
			apply: func(b *brokenNode) {
				b.WriteFile(nodeDNSYAML, "upstreams: ["+site1+", "+site2+"]\ndomainNeeded: true\ndnsForwardMax: 5000\n", 0o644)
				b.Run("node-dns", "check-config")
			},
			after: func(b *brokenNode) { b.write("") },
		},
		{
			name: "the kubelet gives pods this node's resolv.conf", fault: func(b *brokenNode) {
				b.WriteFile(kubeletConfig, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nresolvConf: /etc/resolv.conf\n", 0o644)
			},
			check: "kubelet", page: "the kubelet's resolvConf /etc/resolv.conf names this node",
			fix: "point it at /etc/origin/node/resolv.conf, which has the original nameservers: resolvConf in " + kubeletConfig, apply: func(b *brokenNode) {
				b.WriteFile(kubeletConfig, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nresolvConf: /etc/origin/node/resolv.conf\n", 0o644)
				// The advice once removed the site's search domain from every pod.
				if text := b.ReadFile("/etc/origin/node/resolv.conf"); !strings.Contains(text, "search example.com\n") || !strings.Contains(text, "nameserver "+site1+"\n") {
					b.t.Errorf("got this file for pods\n%s", text)
				}
			},
			after: func(b *brokenNode) { b.Run("rm", kubeletConfig) },
		},
	})
}

// TestOverwrittenOnce: a tool that overwrites resolv.conf once leaves no trace, not even its search
// list, and doctor reports nothing.
func TestOverwrittenOnce(t *testing.T) {
	b := newBrokenNode(t)
	b.WriteFile(resolvConf, "# Generated by vpn\nsearch vpn.example\nnameserver "+site2+"\n", 0o644)
	b.Await("resolv.conf to be as before", func() bool {
		text := b.ReadFile(resolvConf)
		return b.isPointed() && strings.Contains(text, "search example.com\n") && !strings.Contains(text, "vpn.example")
	})
	b.awaitResolves()
	if failed := failures(b.report()); len(failed) > 0 {
		t.Errorf("got failures %+v", failed)
	}
}
