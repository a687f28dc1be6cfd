package searchlist

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/sys/procfs"
)

// TestToldBy: a flag overrides the files, and the files override the defaults. Unknown values are
// reported as unknown.
func TestToldBy(t *testing.T) {
	domain, err := dnsname.Parse("corp.test")
	if err != nil {
		t.Fatal(err)
	}
	at := nodeconfig.Source{File: "/etc/k.yaml", Line: 3}
	all := &nodeconfig.KubeletSays{
		DNS: []netip.Addr{netip.MustParseAddr("10.0.0.5")}, Domain: domain, ResolvConf: "/run/x.conf",
		Sources: map[string]nodeconfig.Source{nodeconfig.KeyClusterDNS: at, nodeconfig.KeyClusterDomain: at, nodeconfig.KeyResolvConf: at},
	}
	flagDomain, none := "flag.test", ""
	for _, row := range []struct {
		name  string
		flags Flags
		files nodeconfig.KubeletFiles
		says  *nodeconfig.KubeletSays
		want  Told
	}{
		{"nothing", Flags{}, nodeconfig.KubeletFiles{}, nil, Told{}},
		{"files alone", Flags{}, nodeconfig.KubeletFiles{Config: "/etc/k.yaml"}, all, Told{all.DNS, "clusterDNS /etc/k.yaml:3", "corp.test", "clusterDomain /etc/k.yaml:3", "/run/x.conf", "resolvConf /etc/k.yaml:3", "resolvConf in /etc/k.yaml"}},
		{
			"flags before files",
			Flags{Domain: &flagDomain, ResolvConf: &none},
			nodeconfig.KubeletFiles{Config: "/etc/k.yaml"},
			all,
			Told{all.DNS, "clusterDNS /etc/k.yaml:3", "flag.test", "--cluster-domain of the kubelet, pid 7", "", "--resolv-conf of the kubelet, pid 7", "--resolv-conf on the kubelet's command line"},
		},
		{"files without the settings", Flags{}, nodeconfig.KubeletFiles{DropIns: "/etc/k.d"}, &nodeconfig.KubeletSays{}, Told{nil, "default", "", "default", "/etc/resolv.conf", "default", "resolvConf in /etc/k.d/*.conf"}},
		{
			"a file that cannot be read, and a flag",
			Flags{Domain: &flagDomain},
			nodeconfig.KubeletFiles{Config: "/etc/k.yaml"},
			&nodeconfig.KubeletSays{Unknown: map[string]bool{nodeconfig.KeyClusterDNS: true, nodeconfig.KeyClusterDomain: true, nodeconfig.KeyResolvConf: true}},
			Told{Domain: "flag.test", DomainBy: "--cluster-domain of the kubelet, pid 7"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := fmt.Sprintf("%+v", ToldBy(7, row.flags, row.files, row.says)); got != fmt.Sprintf("%+v", row.want) {
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
			if got := FilesOf(root, p); got.Config != row.config || got.DropIns != row.dropIns || got.WorkDir != "/var/lib/kubelet" || got.Root != root {
				t.Errorf("got %+v", got)
			}
			if conf := FlagsOf(procfs.Process{Args: []string{"kubelet", "--resolv-conf=x"}}); *conf.ResolvConf != "/x" {
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
