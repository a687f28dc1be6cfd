package hostdns

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	ours   = "/run/systemd/resolved.conf.d/90-node-dns.conf"
	main   = "/etc/systemd/resolved.conf"
	etc    = "/etc/systemd/resolved.conf.d/"
	run    = "/run/systemd/resolved.conf.d/"
	vendor = "/usr/lib/systemd/resolved.conf.d/"
)

func TestReadResolvedConf(t *testing.T) {
	for _, row := range []struct {
		name             string
		files            map[string]string // "-> target" is a link
		servers, domains string
		tls, over        string
	}{
		{name: "no file"},
		{name: "comments alone", files: map[string]string{main: "[Resolve]\n#DNS=10.0.0.1\n;Domains=a.example\n"}},
		{
			name:    "a list is collected from all files, by their names and not by their directories",
			files:   map[string]string{main: "[Resolve]\nDNS=10.0.0.1\nDomains=a.example\n", etc + "20.conf": "[Resolve]\nDNS=10.0.0.3\n", vendor + "30.conf": "[Resolve]\nDNS=10.0.0.4 10.0.0.1\nDomains=~. b.example\n", run + "10.conf": "[Resolve]\nDNS = 10.0.0.2\n"},
			servers: "10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4", domains: "a.example ~. b.example",
		},
		{
			name:    "an empty value forgets",
			files:   map[string]string{main: "[Resolve]\nDNS=10.0.0.1\nDomains=a.example\n", etc + "20.conf": "[Resolve]\nDNS=\nDNS=10.0.0.2\nDomains=\n"},
			servers: "10.0.0.2",
		},
		{
			name:    "/etc goes before /run, and that before /usr/lib",
			files:   map[string]string{etc + "1.conf": "[Resolve]\nDNS=10.0.0.1\n", run + "1.conf": "[Resolve]\nDNS=10.0.0.2\n", vendor + "1.conf": "[Resolve]\nDNS=10.0.0.3\n", vendor + "2.conf": "[Resolve]\nDNS=10.0.0.4\n", etc + "2.conf": "-> /dev/null"},
			servers: "10.0.0.1",
		},
		{
			name:    "one main file",
			files:   map[string]string{main: "[Resolve]\nDNS=10.0.0.1\n", "/usr/lib/systemd/resolved.conf": "[Resolve]\nDNS=10.0.0.2\n"},
			servers: "10.0.0.1",
		},
		{name: "the vendor's main file", files: map[string]string{"/usr/lib/systemd/resolved.conf": "[Resolve]\nDNS=10.0.0.2\n"}, servers: "10.0.0.2"},
		{
			name:    "every form of a server, and invalid ones",
			files:   map[string]string{main: "[Resolve]\nDNS=10.0.0.1#dns.example [2001:db8::1]:5353%eth0#x 10.0.0.2:5353 fe80::1%eth0 2001:db8::2 dns.example [fe80::2]:54%eth1\n"},
			servers: "10.0.0.1 [2001:db8::1]:5353 10.0.0.2:5353 fe80::1%eth0 2001:db8::2 [fe80::2%eth1]:54",
		},
		{name: "a continued line", files: map[string]string{main: "[Resolve]\nDNS=10.0.0.1 \\\n# between\n 10.0.0.2\n"}, servers: "10.0.0.1 10.0.0.2"},
		{name: "another section", files: map[string]string{main: "[Network]\nDNS=10.0.0.1\n"}},
		{name: "no .conf", files: map[string]string{etc + "20.conf.bak": "[Resolve]\nDNS=10.0.0.1\n"}},
		{name: "over TLS", files: map[string]string{etc + "20.conf": "[Resolve]\nDNSOverTLS=yes\n"}, tls: etc + "20.conf"},
		{name: "over TLS where a server has it", files: map[string]string{main: "[Resolve]\nDNSOverTLS=yes\n", etc + "20.conf": "[Resolve]\nDNSOverTLS=opportunistic\n"}},
		{name: "ours is not in it", files: map[string]string{ours: "[Resolve]\nDNS=192.0.2.10\n"}},
		{name: "another in our place", files: map[string]string{etc + filepath.Base(ours): "[Resolve]\nDNS=10.0.0.1\n"}, servers: "10.0.0.1", over: etc + "90-node-dns.conf overrides it"},
		{name: "ours is masked", files: map[string]string{etc + filepath.Base(ours): "-> /dev/null"}, over: etc + "90-node-dns.conf overrides it"},
		{name: "one behind ours", files: map[string]string{etc + "99.conf": "[Resolve]\nDomains=a.example\n"}, domains: "a.example", over: etc + "99.conf is read later and sets Domains="},
		{name: "one behind ours that sets something else", files: map[string]string{etc + "99.conf": "[Resolve]\nLLMNR=no\n"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, err := readResolvedConf(confTree(t, row.files), ours)
			if err != nil {
				t.Fatal(err)
			}
			var servers []string
			for _, server := range c.Servers {
				servers = append(servers, server.String())
			}
			got := []string{strings.Join(servers, " "), strings.Join(c.Domains, " "), c.TLS, c.Over}
			if diff := cmp.Diff([]string{row.servers, row.domains, row.tls, row.over}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestReadResolvedConfFails: if an admin's file cannot be read, its settings are not guessed.
func TestReadResolvedConfFails(t *testing.T) {
	root := confTree(t, nil)
	if err := os.MkdirAll(filepath.Join(root, main), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := readResolvedConf(root, ours); err == nil || !strings.Contains(err.Error(), "reading systemd-resolved's configuration: ") {
		t.Errorf("got %v", err)
	}
}

func confTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		at := filepath.Join(root, path)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if target, ok := strings.CutPrefix(text, "-> "); ok && err == nil {
			err = os.Symlink(target, at)
		} else if err == nil {
			err = os.WriteFile(at, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestDropIn(t *testing.T) {
	const text = DropInWatermark + "\n[Resolve]\nDNS=\nDNS=192.0.2.10\nDomains=\nDomains=cluster.local ~. ~example.com\n"
	d := DropIn{Server: netip.MustParseAddr("192.0.2.10"), Domains: []string{"cluster.local", "~.", "~example.com"}}
	if diff := cmp.Diff(text, string(d.Bytes())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	back, ours := parseDropIn([]byte(text))
	if !ours || back.Server != d.Server || !cmp.Equal(back.Domains, d.Domains) {
		t.Errorf("read back as %+v, ours %v", back, ours)
	}
	if none, ours := parseDropIn(DropIn{}.Bytes()); !ours || none.Server.IsValid() || len(none.Domains) > 0 {
		t.Errorf("the empty drop-in is read back as %+v, ours %v", none, ours)
	}
	if _, ours := parseDropIn([]byte("[Resolve]\nDNS=192.0.2.10\n")); ours {
		t.Error("an admin's file was taken for ours")
	}
}

// FuzzParseDropIn: any parsed file renders to a file with the same meaning.
func FuzzParseDropIn(f *testing.F) {
	f.Add(DropInWatermark + "\n[Resolve]\nDNS=\nDNS=192.0.2.10\nDomains=\nDomains=cluster.local ~.\n")
	f.Add("[Resolve]\nDNS=fe80::1%eth0 \\\n\nDomains=a\\\n[Resolve]\n=\n")
	f.Fuzz(func(t *testing.T, text string) {
		d, _ := parseDropIn([]byte(text))
		if !d.Server.IsValid() {
			return
		}
		again, ours := parseDropIn(d.Bytes())
		if !ours || again.Server != d.Server {
			t.Errorf("%+v is read back as %+v, ours %v", d, again, ours)
		}
	})
}
