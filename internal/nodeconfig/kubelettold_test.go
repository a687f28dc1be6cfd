package nodeconfig

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/sys/procfs"
)

// TestToldBy: a flag overrides the files, and the files override the defaults. Unknown values are
// reported as unknown.
func TestToldBy(t *testing.T) {
	domain, err := dnsname.Parse("corp.test")
	if err != nil {
		t.Fatal(err)
	}
	at := Source{File: "/etc/k.yaml", Line: 3}
	all := &KubeletSays{
		DNS: []netip.Addr{netip.MustParseAddr("10.0.0.5")}, Domain: domain, ResolvConf: "/run/x.conf",
		Sources: map[string]Source{KeyClusterDNS: at, KeyClusterDomain: at, KeyResolvConf: at},
	}
	flagDomain, none := "flag.test", ""
	for _, row := range []struct {
		name  string
		flags KubeletFlags
		files KubeletFiles
		says  *KubeletSays
		want  KubeletTold
	}{
		{"nothing", KubeletFlags{}, KubeletFiles{}, nil, KubeletTold{}},
		{"files alone", KubeletFlags{}, KubeletFiles{Config: "/etc/k.yaml"}, all, KubeletTold{all.DNS, "clusterDNS /etc/k.yaml:3", "corp.test", "clusterDomain /etc/k.yaml:3", "/run/x.conf", "resolvConf /etc/k.yaml:3", "resolvConf in /etc/k.yaml"}},
		{
			"flags before files",
			KubeletFlags{Domain: &flagDomain, ResolvConf: &none},
			KubeletFiles{Config: "/etc/k.yaml"},
			all,
			KubeletTold{all.DNS, "clusterDNS /etc/k.yaml:3", "flag.test", "--cluster-domain of the kubelet, pid 7", "", "--resolv-conf of the kubelet, pid 7", "--resolv-conf on the kubelet's command line"},
		},
		{"files without the settings", KubeletFlags{}, KubeletFiles{DropIns: "/etc/k.d"}, &KubeletSays{}, KubeletTold{nil, "default", "", "default", "/etc/resolv.conf", "default", "resolvConf in /etc/k.d/*.conf"}},
		{
			"a file that cannot be read, and a flag",
			KubeletFlags{Domain: &flagDomain},
			KubeletFiles{Config: "/etc/k.yaml"},
			&KubeletSays{Unknown: map[string]bool{KeyClusterDNS: true, KeyClusterDomain: true, KeyResolvConf: true}},
			KubeletTold{Domain: "flag.test", DomainBy: "--cluster-domain of the kubelet, pid 7"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := fmt.Sprintf("%+v", KubeletToldBy(7, row.flags, row.files, row.says)); got != fmt.Sprintf("%+v", row.want) {
				t.Errorf("got  %s\nwant %+v", got, row.want)
			}
		})
	}
}

// TestFilesOf: the last of each flag counts, relative to the kubelet's working directory.
func TestFilesOf(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "proc/9")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Symlink("/var/lib/kubelet", filepath.Join(dir, "cwd")), os.WriteFile(filepath.Join(dir, "comm"), []byte("kubelet\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ name, args, config, dropIns string }{
		{"none", "--resolv-conf=/x", "", ""},
		{"with =", "--config=/etc/k.yaml --config-dir=/etc/k.d", "/etc/k.yaml", "/etc/k.d"},
		{"two words", "--config /etc/k.yaml --config_dir /etc/k.d", "/etc/k.yaml", "/etc/k.d"},
		{"the last one", "--config=/a --config=/b", "/b", ""},
		{"reset by an empty value", "--config=/a --config=", "", ""},
		{"relative", "--config=k.yaml --config-dir=../k.d", "/var/lib/kubelet/k.yaml", "/var/lib/k.d"},
		{"a slash at the end", "--config-dir=/etc/k.d/", "", "/etc/k.d/"},
		{"one dash", "-config=/a", "", ""},
		{"after the flags", "-- --config=/a", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := procfs.Named(root, "kubelet")[0]
			p.Args = strings.Fields("kubelet " + row.args)
			if got := KubeletFilesOf(root, p); got.Config != row.config || got.DropIns != row.dropIns || got.WorkDir != "/var/lib/kubelet" || got.Root != root {
				t.Errorf("got %+v", got)
			}
			if conf := KubeletFlagsOf(procfs.Process{Args: []string{"kubelet", "--resolv-conf=x"}}); *conf.ResolvConf != "/x" {
				t.Errorf("without a known working directory: got %s", *conf.ResolvConf)
			}
		})
	}
}

func TestResolvConfSetting(t *testing.T) {
	for _, row := range []struct {
		name        string
		isOpenShift bool
		told, want  string
	}{
		{"nothing known", false, "", "resolvConf in /var/lib/kubelet/config.yaml"},
		{"a flag", false, byCommandLine, byCommandLine},
		{"a file", false, "resolvConf in /etc/k.yaml", "resolvConf in /etc/k.yaml"},
		{"OpenShift 3", true, "", "kubeletArguments: {resolv-conf: [FILE]} in /etc/origin/node/node-config.yaml"},
		{"OpenShift 3 with flags", true, byCommandLine, "kubeletArguments: {resolv-conf: [FILE]} in /etc/origin/node/node-config.yaml"},
		{"OpenShift 3 with another kubelet's file", true, "resolvConf in /etc/k.yaml", "resolvConf in /etc/k.yaml"},
	} {
		if got := ResolvConfSetting(row.isOpenShift, row.told); got != row.want {
			t.Errorf("%s: got %s", row.name, got)
		}
	}
}

func TestFlags(t *testing.T) {
	domain, path, none := "corp.test", "/run/x.conf", ""
	a, b := netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("2001:db8::5")
	for _, test := range []struct {
		name, args string
		want       KubeletFlags
	}{
		{"nothing", "kubelet --config=/var/lib/kubelet/config.yaml --v=2", KubeletFlags{}},
		{"all", "kubelet --cluster-dns=10.0.0.5 --cluster-domain Corp.test. --resolv-conf=/run/x.conf", KubeletFlags{[]netip.Addr{a}, &domain, &path}},
		{"a list", "kubelet --cluster-dns=10.0.0.5,2001:db8::5", KubeletFlags{DNS: []netip.Addr{a, b}}},
		{"a list in parts", "kubelet --cluster-dns 10.0.0.5 --cluster_dns 2001:db8::5", KubeletFlags{DNS: []netip.Addr{a, b}}},
		{"no address", "kubelet --cluster-dns=dns.test,10.0.0.5", KubeletFlags{DNS: []netip.Addr{a}}},
		{"the last domain", "kubelet --cluster-domain=a --cluster-domain=corp.test", KubeletFlags{Domain: &domain}},
		{"a path from its working directory", "kubelet --resolv-conf=run/x.conf", KubeletFlags{ResolvConf: &path}},
		{"no file", "kubelet --resolv-conf=", KubeletFlags{ResolvConf: &none}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := KubeletFlagsOf(procfs.Process{Args: strings.Fields(test.args)})
			if diff := cmp.Diff(test.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.IsEmpty() != (test.name == "nothing") {
				t.Errorf("%+v: IsEmpty is %t", got, got.IsEmpty())
			}
		})
	}
}
