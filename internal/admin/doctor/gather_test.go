package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"debug/buildinfo"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const zone = `. 300 IN SOA ns.example. hostmaster.example. 1 3600 600 86400 300
`

// bigKeys returns a DNSKEY RRset that does not fit into 1232 bytes.
func bigKeys() string {
	out := zone
	for i := range 8 {
		out += ". 300 IN DNSKEY 257 3 8 " + strings.Repeat(string(rune('A'+i)), 252) + "\n"
	}
	return out
}

// TestProbe queries real nameservers, each with a different fault.
func TestProbe(t *testing.T) {
	for _, row := range []struct {
		name    string
		records string
		faults  dnstest.Faults
		change  func(s *dnstest.Server)
		domain  string
		level   Level
		says    string
	}{
		{name: "is well", records: zone, level: OK, says: "TCP and with EDNS 1232"},
		{name: "of a domain of its own", records: "corp.test. 300 IN SOA ns.example. hostmaster.example. 1 3600 600 86400 300\n", domain: "corp.test.", level: OK, says: "(for corp.test.) answers over UDP"},
		{name: "truncates", records: bigKeys(), level: OK, says: "it truncates larger answers"},
		{name: "is down", records: zone, change: (*dnstest.Server).Down, level: Fail, says: "does not answer over UDP"},
		{name: "refuses", records: zone, faults: dnstest.Faults{Rcode: dns.RcodeRefused}, level: Warn, says: "refuses the queries"},
		{name: "knows no EDNS", records: zone, faults: dnstest.Faults{FormErrOnEDNS: true}, level: Warn, says: "does not support EDNS"},
		{name: "has no TCP", records: zone, change: (*dnstest.Server).RefuseTCP, level: Warn, says: "does not answer over TCP"},
	} {
		t.Run(row.name, func(t *testing.T) {
			server := dnstest.NewServer(t, row.records)
			server.SetFaults(row.faults)
			if row.change != nil {
				row.change(server)
			}
			if row.domain == "" {
				row.domain = "."
			}
			p := Probe{Server: server.Addr().String(), Domains: []string{row.domain}}
			p.ask(t.Context())
			if f := (Snapshot{}).together([]Probe{p})[0]; f.Level != row.level || !strings.Contains(f.What+strings.Join(f.Details, "\n"), row.says) {
				t.Errorf("got %+v from %+v", f, p)
			}
		})
	}
}

// TestProvenName proves that a name counts only if the chain verifies for it.
func TestProvenName(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name    string
		names   []string
		trusted bool
		want    string
	}{
		{"of an authority", []string{"dns.site.example"}, true, "dns.site.example"},
		{"self-signed", []string{"dns.site.example"}, false, ""},
		{"a wildcard", []string{"*.site.example"}, true, ""},
		{"a wildcard and a name", []string{"*.site.example", "dns.site.example"}, true, "dns.site.example"},
		{"of no name", nil, true, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			template := &x509.Certificate{
				SerialNumber: big.NewInt(1), DNSNames: row.names, NotAfter: time.Now().Add(time.Hour),
				IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			}
			der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
			if err != nil {
				t.Fatal(err)
			}
			leaf, err := x509.ParseCertificate(der)
			if err != nil {
				t.Fatal(err)
			}
			roots := x509.NewCertPool()
			if row.trusted {
				roots.AddCert(leaf)
			}
			refusal := &tls.CertificateVerificationError{
				UnverifiedCertificates: []*x509.Certificate{leaf}, Err: x509.HostnameError{Certificate: leaf, Host: "dns.example"},
			}
			if got := provenName(refusal, roots); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
	server := dnstest.NewTLSServer(t, zone)
	p := Probe{Server: "dns+tls://" + server.Addr().String() + "#other.example", Domains: []string{"."}}
	p.ask(t.Context())
	if got := provenName(p.TCP.Err, server.CertPool()); got != dnstest.TLSName || p.Proven != "" {
		t.Errorf("got %q and %q from a real server: %v", got, p.Proven, p.TCP.Err)
	}
	if got := provenName(x509.UnknownAuthorityError{}, nil); got != "" {
		t.Errorf("got %q for another refusal", got)
	}
}

// TestGatherHangs proves that a daemon that never answers is waited for and reported, and that
// everything else is still inspected.
func TestGatherHangs(t *testing.T) {
	root := lab.ShortDir(t)
	path := control.SocketPath(root)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s := Gather(t.Context(), root, "1.0.0", "")
	if s.Status != nil || !errors.Is(s.StatusErr, control.ErrNoAnswer) {
		t.Errorf("got %v, %v", s.Status, s.StatusErr)
	}
	r := Diagnose(s)
	if i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Check == "daemon" }); i != 0 || !strings.Contains(r.Findings[i].What, "does not answer") {
		t.Errorf("got %+v", r.Findings)
	}
	if r.OK == 0 {
		t.Error("nothing else was inspected")
	}
}

// TestKubeletFlags proves that the command line of the running kubelet overrides its file.
func TestKubeletFlags(t *testing.T) {
	for _, row := range []struct {
		name, flags string
		want        Kubelet // File is not compared
	}{
		{"none", "", Kubelet{Configured: true, Path: "/run/file.conf", Source: "resolvConf /var/lib/kubelet/config.yaml:3"}},
		{"another file", "--resolv-conf=/run/flag.conf", Kubelet{Configured: true, Path: "/run/flag.conf", Source: "--resolv-conf of the kubelet, pid 812", SetBy: "--resolv-conf on the kubelet's command line"}},
		{"no file", "--resolv-conf=", Kubelet{Configured: true, Source: "--resolv-conf of the kubelet, pid 812", SetBy: "--resolv-conf on the kubelet's command line"}},
		{"a file of its own", "--config=/etc/k.yaml", Kubelet{Configured: true, Path: "/etc/own.conf", Source: "resolvConf /etc/k.yaml:2", SetBy: "resolvConf in /etc/k.yaml"}},
		{"a file, and a drop-in that removes a key", "--config=/etc/k.yaml\x00--config-dir=/etc/k.d", Kubelet{Configured: true, Path: "/etc/resolv.conf", SetBy: "resolvConf in /etc/k.yaml"}},
		{"a flag before a file", "--config\x00/etc/k.yaml\x00--resolv-conf=/run/flag.conf", Kubelet{Configured: true, Path: "/run/flag.conf", Source: "--resolv-conf of the kubelet, pid 812", SetBy: "--resolv-conf on the kubelet's command line"}},
		{
			"a faulty file", "--config=/etc/bad.yaml",
			Kubelet{Configured: true, Path: "/run/file.conf", Source: "resolvConf /var/lib/kubelet/config.yaml:3", Faults: []string{`/etc/bad.yaml:2:13: resolvConf: expected the path of a file, got the number 7`}},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			root := lab.Tree(t, map[string]string{
				"/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\nclusterDNS: [192.0.2.10]\nresolvConf: /run/file.conf\n",
				"/etc/k.yaml":                  "kind: KubeletConfiguration\nresolvConf: own.conf\n", "/etc/bad.yaml": "kind: KubeletConfiguration\nresolvConf: 7\n",
				"/etc/k.d/10.conf": "kind: KubeletConfiguration\nresolvConf: null\n",
				"/proc/812/comm":   "kubelet\n", "/proc/812/status": "Uid:\t0\t0\t0\t0\n", "/proc/812/cmdline": "kubelet\x00--cluster-dns=192.0.2.11\x00" + row.flags + "\x00",
			})
			g := &gathering{root: root}
			var err error
			if g.s.Host.State.Config, err = nodeconfig.Load(nodeconfig.DefaultPaths(root)); err != nil {
				t.Fatal(err)
			}
			g.kubelet(t.Context())
			got := g.s.Kubelet
			if fmt.Sprint(got.DNS) != "[192.0.2.11]" {
				t.Errorf("got clusterDNS %v", got.DNS)
			}
			got.DNS, got.File = nil, hostdns.File{}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestGatherTree inspects files of other tools and changes none of them.
func TestGatherTree(t *testing.T) {
	root := lab.ShortDir(t)
	files := map[string]string{
		"/etc/resolv.conf": "nameserver 192.0.2.53\n",
		"/etc/NetworkManager/dispatcher.d/99-origin-dns.sh":  "#!/bin/bash\n",
		"/usr/lib/NetworkManager/dispatcher.d/99-origin-dns": "#!/bin/bash\n",
		"/etc/NetworkManager/conf.d/99-origin.conf":          "[main]\ndns=none\n",
		"/etc/sysconfig/network/config":                      "NETCONFIG_DNS_POLICY=\"auto\"\n",
		"/sbin/netconfig":                                    "#!/bin/bash\n",
		"/etc/nsswitch.conf":                                 "hosts: files dns\n",
		"/etc/node-dns/node-dns.yaml":                        "upstreams: [\"127.0.0.1:1\"]\nresolvConf: none\n",
		"/var/lib/kubelet/config.yaml":                       "kind: KubeletConfiguration\nclusterDNS: [192.0.2.10]\nresolvConf: ../x.conf\n",
		"/var/lib/x.conf":                                    "nameserver 192.0.2.54\n",
	}
	for path, text := range files {
		at := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(filepath.Join(root, "/usr/lib/NetworkManager/dispatcher.d/99-origin-dns"), 0o755),
		os.Symlink("/dev/null", filepath.Join(root, "/etc/NetworkManager/dispatcher.d/99-origin-dns"))); err != nil {
		t.Fatal(err)
	}
	before := mtimes(t, root)
	s := Gather(t.Context(), root, "", "")
	if !errors.Is(s.StatusErr, control.ErrNotRunning) {
		t.Errorf("got status error %v", s.StatusErr)
	}
	if len(s.OldHooks) != 1 || s.OldHooks[0].Executable || len(s.Hooks) != 2 || s.Hooks[0].Target != "/dev/null" || s.Hooks[0].Executable || !s.Hooks[1].Executable {
		t.Errorf("got hooks %+v, old hooks %+v", s.Hooks, s.OldHooks)
	}
	if at := s.NMConf.DNS; at.Value != "none" || at.Line != 2 || !strings.HasSuffix(at.File, "99-origin.conf") {
		t.Errorf("got NetworkManager setting %+v", at)
	}
	if len(s.Writers) != 1 || !strings.Contains(s.Writers[0].What, "NETCONFIG_DNS_POLICY=auto") {
		t.Errorf("got writers %+v", s.Writers)
	}
	if k := s.Kubelet; !k.Configured || k.Path != "/var/lib/x.conf" || k.Source != "resolvConf /var/lib/kubelet/config.yaml:3" || !k.File.Exists || fmt.Sprint(k.DNS) != "[192.0.2.10]" {
		t.Errorf("got kubelet %+v", k)
	}
	if s.ResolvConf.Kind != "regular" || s.ResolvConf.Mode != 0o644 {
		t.Errorf("got resolv.conf %+v", s.ResolvConf)
	}
	if after := mtimes(t, root); !slices.Equal(before, after) {
		t.Errorf("files changed from\n%v\nto\n%v", before, after)
	}
}

// mtimes lists all files below root with their modification times.
func mtimes(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			all = append(all, path+" "+info.ModTime().Format(time.RFC3339Nano))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestOpenFiles(t *testing.T) {
	const head = "Limit                     Soft Limit           Hard Limit           Units     \nMax cpu time              unlimited            unlimited            seconds   \n"
	for _, row := range []struct {
		text string
		want uint64
	}{
		{head + "Max open files            1024                 524288               files     \n", 524288},
		{head + "Max open files            unlimited            unlimited            files\n", 0},
		{head, 0},
		{"Max open files\n", 0},
	} {
		if got := openFiles(row.text); got != row.want {
			t.Errorf("%q: got %d, want %d", row.text, got, row.want)
		}
	}
}

func TestCommitIn(t *testing.T) {
	const info = "\xff Go buildinf:\x08\x02\npath\tx\nbuild\tvcs=git\n"
	for _, row := range []struct{ name, program, commit, err string }{
		{"a commit", "\x7fELF" + info + "build\tvcs.revision=c0ffee\nbuild\tvcs.modified=true\n", "c0ffee", ""},
		{"no commit", "\x7fELF" + info, "", ""},
		{"another language", "#!/bin/sh\nbuild\tvcs.revision=c0ffee\n", "", "not a Go executable"},
		{"an empty file", "", "", "not a Go executable"},
	} {
		t.Run(row.name, func(t *testing.T) {
			commit, err := commitIn([]byte(row.program))
			if commit != row.commit || err == nil && row.err != "" || err != nil && err.Error() != row.err {
				t.Errorf("got %q, %v; want %q, %q", commit, err, row.commit, row.err)
			}
		})
	}
	if testing.Short() {
		return // the hook takes seconds to build
	}
	path := filepath.Join(t.TempDir(), "origin-dns-dispatcher")
	if out, err := exec.Command("go", "build", "-o", path, "../../../cmd/origin-dns-dispatcher").CombinedOutput(); err != nil {
		t.Fatalf("building the hook: %v\n%s", err, out)
	}
	program, err1 := os.ReadFile(path)
	recorded, err2 := buildinfo.ReadFile(path)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if got, err := commitIn(program); got != commit(recorded) || err != nil {
		t.Errorf("got %q, %v; debug/buildinfo finds %q", got, err, commit(recorded))
	}
}
