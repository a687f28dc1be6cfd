package nodeconfig

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestSettingsAreWhole: Settings covers exactly the known keys.
func TestSettingsAreWhole(t *testing.T) {
	var known, shown []string
	var add func(prefix string, keys []key[Config])
	add = func(prefix string, keys []key[Config]) {
		for _, k := range keys {
			if k.keys != nil {
				add(prefix+k.name+".", k.keys)
			} else {
				known = append(known, prefix+k.name)
			}
		}
	}
	add("", nodeDNSKeys)
	add("", nodeConfigKeys)
	add("", kubeletKeys)
	for _, e := range defaults().effects() {
		shown = append(shown, e.keys...)
	}
	slices.Sort(known)
	slices.Sort(shown)
	if known, shown = slices.Compact(known), slices.Compact(shown); !slices.Equal(known, shown) {
		t.Errorf("got keys\n%[2]v\nwant\n%[1]v", known, shown)
	}
}

func TestSettings(t *testing.T) {
	const ours, origin, kubelet = "/etc/node-dns/node-dns.yaml", "/etc/origin/node/node-config.yaml", "/var/lib/kubelet/config.yaml"
	for _, test := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"no files", nil, ""},
		{
			"node-config.yaml",
			map[string]string{origin: "kind: NodeConfig\ndnsIP: 0.0.0.0\ndnsDomain: corp.test\nkubeletArguments:\n  node-ip: [10.0.0.5]\n"},
			"node-config.yaml:2 dnsIP=0.0.0.0 -> node IP\nnode-config.yaml:3 dnsDomain=corp.test\nnode-config.yaml:5 kubeletArguments.node-ip=10.0.0.5\n",
		},
		{
			"node-dns.yaml wins",
			map[string]string{origin: "dnsDomain: corp.test\nnodeIP: 10.0.0.5\n", ours: "nodeIP: 10.0.0.6\nclusterDomain: mine.test\nlisten: [all, 127.0.0.1:5353]\n"},
			"node-config.yaml:1 dnsDomain by clusterDomain node-dns.yaml:2\nnode-dns.yaml:1 nodeIP=10.0.0.6\nnode-dns.yaml:2 clusterDomain=mine.test\nnode-dns.yaml:3 listen=all 127.0.0.1:5353\n",
		},
		{
			"kubelet configuration",
			map[string]string{kubelet: "kind: KubeletConfiguration\nclusterDNS: [10.96.0.10]\nresolvConf: /run/x\n"},
			"config.yaml:2 clusterDNS=10.96.0.10\nconfig.yaml:3 resolvConf=/run/x\n",
		},
		{
			"same keys in both files",
			map[string]string{
				kubelet: "kind: KubeletConfiguration\nclusterDNS: [10.96.0.10]\nresolvConf: /run/x\n",
				ours:    "clusterDNS: [10.96.0.11]\nresolvConf: none\n",
			},
			"config.yaml:2 clusterDNS=10.96.0.10\nconfig.yaml:3 resolvConf=/run/x\nnode-dns.yaml:1 clusterDNS=10.96.0.11\nnode-dns.yaml:2 resolvConf=none\n",
		},
		{
			"same key, and node-dns.yaml",
			map[string]string{ours: "clusterDNS: [10.96.0.11]\nresolvConf: none\nkubeconfig: none\nclusterTTL: 7\nnamespaces: [a, b]\nroutes:\n- {domain: x.test, servers: [192.0.2.1]}\nallowFrom: [local, 192.0.2.0/24]\n"},
			"node-dns.yaml:1 clusterDNS=10.96.0.11\nnode-dns.yaml:2 resolvConf=none\nnode-dns.yaml:3 kubeconfig=none\nnode-dns.yaml:4 clusterTTL=7\nnode-dns.yaml:5 namespaces=a b\n" +
				"node-dns.yaml:6 routes=x.test via 192.0.2.1\nnode-dns.yaml:8 allowFrom=local 192.0.2.0/24\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			for path, text := range test.files {
				if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			c, err := Load(DefaultPaths(root))
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, s := range c.Settings() {
				value := "=" + strings.TrimPrefix(s.Value, root)
				if s.By != "" {
					words := strings.Fields(s.By)
					value = " by " + words[0] + " " + filepath.Base(words[1])
				}
				got.WriteString(filepath.Base(s.Source.File) + ":" + strconv.Itoa(s.Source.Line) + " " + s.Key + value + "\n")
			}
			if got.String() != test.want {
				t.Errorf("got\n%sexpected\n%s", &got, test.want)
			}
		})
	}
}
