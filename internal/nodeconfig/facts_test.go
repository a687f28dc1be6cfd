package nodeconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/golden"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// loadUnprivileged calls Load as a user without permission to read the files that the test closed.
func loadUnprivileged(t *testing.T, root string) (c Config, err error) {
	t.Helper()
	lab.AsNobody(func() { c, err = Load(DefaultPaths(root)) })
	return c, err
}

// hand writes the facts file like the privileged half.
func hand(t *testing.T, root string) {
	t.Helper()
	c, _ := Load(DefaultPaths(root))
	if c.Facts == nil {
		t.Fatal("the cluster's file was not read")
	}
	write(t, pathOf(root, "Facts"), string(c.Facts.Bytes()))
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// openRoot returns a directory that every user may enter. It is opened again after the test, so
// that it can be removed.
func openRoot(t *testing.T) string {
	t.Helper()
	root := lab.OpenDir(t)
	t.Cleanup(func() {
		filepath.WalkDir(root, func(path string, d fs.DirEntry, _ error) error {
			if d.IsDir() {
				return os.Chmod(path, 0o755)
			}
			return nil
		})
	})
	return root
}

// TestFactsSayTheSame: a user who may not read the cluster's file gets the same Config as one who
// may, for every test file, with and without faults. A key missing in the facts fails here.
func TestFactsSayTheSame(t *testing.T) {
	for _, path := range append(files(t, "testdata/good/*.yaml"), files(t, "testdata/bad/*.yaml")...) {
		var name string
		switch base := filepath.Base(path); {
		case strings.HasPrefix(base, "node-dns"):
			continue
		case strings.HasPrefix(base, "kubelet"):
			name = "Kubelet"
		default:
			name = "NodeConfig"
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			root := openRoot(t)
			write(t, pathOf(root, name), string(text))
			want, wantErr := Load(DefaultPaths(root))
			hand(t, root)
			chmod(t, pathOf(root, name), 0)
			got, gotErr := loadUnprivileged(t, root)
			checkConfig(t, got, gotErr)
			if got.FactsFile != pathOf(root, "Facts") {
				t.Errorf("FactsFile %q", got.FactsFile)
			}
			got.FactsFile, got.FactsWanted = "", "" // the chmod counts as a change
			if diff := cmp.Diff(asJSON(t, want), asJSON(t, got)); diff != "" {
				t.Errorf("(-read +handed over):\n%s", diff)
			}
			if diff := cmp.Diff(places(wantErr), places(gotErr)); diff != "" {
				t.Errorf("faults (-read +handed over):\n%s", diff)
			}
			if gotErr != nil {
				checkError(t, gotErr)
			}
		})
	}
}

// places returns faults without the text of the file.
func places(err error) []Fault {
	var all []Fault
	for _, f := range Faults(err) {
		fault := *f
		fault.Got = ""
		all = append(all, fault)
	}
	return all
}

// TestLoadFacts tests a cluster's file that may not be read: which file replaces it, and when the
// privileged half must look again.
func TestLoadFacts(t *testing.T) {
	if os.Getuid() != 0 {
		lab.Skip(t, "only root can read what is closed to all others")
	}
	const closed = 0
	const unknown = "the cluster domain is unknown: reading node-config: "
	type tree struct {
		*testing.T
		root string
	}
	at := func(t tree, name string) string { return pathOf(t.root, name) }
	corp := func(t tree) { write(t.T, at(t, "NodeConfig"), "dnsDomain: corp.test\ndnsIP: 172.30.0.10\n") }
	closeFile := func(t tree) { chmod(t.T, at(t, "NodeConfig"), closed) }
	closeDir := func(t tree) { chmod(t.T, filepath.Dir(at(t, "NodeConfig")), closed) }
	handed := func(t tree) {
		corp(t)
		closeFile(t)
		hand(t.T, t.root)
	}
	tests := []struct {
		name   string
		make   func(t tree)
		domain string   // empty if unknown
		files  []string // read or named
		facts  bool     // whether the facts file was used
		wanted string   // part of the reason why the facts are wanted
		err    string   // part of the error
	}{
		{
			name: "readable file: facts are ignored",
			make: func(t tree) {
				handed(t)
				os.Remove(at(t, "NodeConfig"))
				write(t.T, at(t, "NodeConfig"), "dnsDomain: new.test")
			},
			domain: "new.test.", files: []string{"NodeConfig"},
		},
		{
			name:   "unchanged since the handover",
			make:   handed,
			domain: "corp.test.", files: []string{"NodeConfig"}, facts: true,
		},
		{
			name:   "not handed over",
			make:   func(t tree) { corp(t); closeFile(t) },
			wanted: "no such file", err: unknown,
		},
		{
			name:   "clusterDomain in node-dns.yaml, no facts",
			make:   func(t tree) { corp(t); closeFile(t); write(t.T, at(t, "NodeDNS"), "clusterDomain: corp.test") },
			domain: "corp.test.", files: []string{"NodeDNS"}, wanted: "no such file",
		},
		{
			name:  "other setting in node-dns.yaml, no facts",
			make:  func(t tree) { corp(t); closeFile(t); write(t.T, at(t, "NodeDNS"), "cacheSize: 5") },
			files: []string{"NodeDNS"}, wanted: "no such file", err: unknown,
		},
		{
			name:   "clusterDomain in node-dns.yaml wins",
			make:   func(t tree) { handed(t); write(t.T, at(t, "NodeDNS"), "clusterDomain: d.test") },
			domain: "d.test.", files: []string{"NodeConfig", "NodeDNS"}, facts: true,
		},
		{
			name:   "damaged facts",
			make:   func(t tree) { handed(t); os.Truncate(at(t, "Facts"), 100) },
			wanted: "reading the facts file", err: unknown,
		},
		{
			name:   "unreadable facts",
			make:   func(t tree) { handed(t); chmod(t.T, at(t, "Facts"), closed) },
			wanted: "permission denied", err: unknown,
		},
		{
			name:   "FIFO instead of the facts file",
			make:   func(t tree) { corp(t); closeFile(t); mkfifo(t.T, at(t, "Facts")) },
			wanted: "got a FIFO", err: unknown,
		},
		{
			name:   "other content",
			make:   func(t tree) { handed(t); overwrite(t.T, at(t, "NodeConfig"), "dnsDomain: other.test\n") },
			domain: "corp.test.", files: []string{"NodeConfig"}, facts: true, wanted: "has changed",
		},
		{
			name: "other content with the same size and time (cp -p)",
			make: func(t tree) {
				handed(t)
				info, err := os.Stat(at(t, "NodeConfig"))
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Millisecond) // the kernel's clock for files has a tick of 1 to 10 ms
				overwrite(t.T, at(t, "NodeConfig"), "dnsDomain: prod.test\ndnsIP: 172.30.0.10\n")
				if err := os.Chtimes(at(t, "NodeConfig"), time.Time{}, info.ModTime()); err != nil {
					t.Fatal(err)
				}
			},
			domain: "corp.test.", files: []string{"NodeConfig"}, facts: true, wanted: "has changed",
		},
		{
			name: "replaced file",
			make: func(t tree) {
				handed(t)
				write(t.T, at(t, "NodeConfig")+".new", "dnsDomain: corp.test\ndnsIP: 172.30.0.10\n")
				chmod(t.T, at(t, "NodeConfig")+".new", closed)
				if err := os.Rename(at(t, "NodeConfig")+".new", at(t, "NodeConfig")); err != nil {
					t.Fatal(err)
				}
			},
			domain: "corp.test.", files: []string{"NodeConfig"}, facts: true, wanted: "has changed",
		},
		{
			name: "node-config created after the handover",
			make: func(t tree) {
				write(t.T, at(t, "Bootstrap"), "dnsDomain: boot.test")
				hand(t.T, t.root)
				corp(t)
				closeFile(t)
			},
			wanted: "NodeConfig did not exist", err: unknown,
		},
		{
			name: "node-config removed, bootstrap config left",
			make: func(t tree) {
				handed(t)
				os.Remove(at(t, "NodeConfig"))
				write(t.T, at(t, "Bootstrap"), "dnsDomain: boot.test")
				chmod(t.T, at(t, "Bootstrap"), closed)
			},
			wanted: "NodeConfig no longer exists", err: "the cluster domain is unknown: reading node-config: ",
		},
		{
			name:   "node-config removed, no other file",
			make:   func(t tree) { handed(t); os.Remove(at(t, "NodeConfig")) },
			domain: "cluster.local.",
		},
		{
			name:   "closed directory: facts are trusted",
			make:   func(t tree) { handed(t); overwrite(t.T, at(t, "NodeConfig"), "dnsDomain: other.test\n"); closeDir(t) },
			domain: "corp.test.", files: []string{"NodeConfig"}, facts: true,
		},
		{
			name:   "closed directory without facts",
			make:   func(t tree) { corp(t); closeDir(t) },
			wanted: "no such file", err: unknown,
		},
		{
			name: "closed directory without the config file",
			make: func(t tree) {
				write(t.T, filepath.Dir(at(t, "Kubelet"))+"/pki", "")
				hand(t.T, t.root)
				chmod(t.T, filepath.Dir(at(t, "Kubelet")), closed)
			},
			domain: "cluster.local.", facts: true,
		},
		{
			name: "kubelet file, closed OpenShift directory",
			make: func(t tree) {
				write(t.T, at(t, "Kubelet"), "clusterDomain: kube.test")
				write(t.T, filepath.Dir(at(t, "NodeConfig"))+"/resolv.conf", "")
				hand(t.T, t.root)
				closeDir(t)
			},
			domain: "kube.test.", files: []string{"Kubelet"}, facts: true,
		},
		{
			name: "closed kubelet directory",
			make: func(t tree) {
				write(t.T, at(t, "Kubelet"), "clusterDomain: kube.test")
				hand(t.T, t.root)
				chmod(t.T, filepath.Dir(at(t, "Kubelet")), closed)
			},
			domain: "kube.test.", files: []string{"Kubelet"}, facts: true,
		},
		{
			name: "facts about an unknown path",
			make: func(t tree) {
				corp(t)
				closeFile(t)
				write(t.T, at(t, "Facts"), `{"version": 1, "file": "/host/node-config.yaml", "clusterDomain": "host.test."}`)
				os.Remove(at(t, "NodeConfig"))
				write(t.T, at(t, "Kubelet"), "")
				chmod(t.T, filepath.Dir(at(t, "Kubelet")), closed)
			},
			wanted: "which is not this host's cluster file", err: "the cluster domain is unknown: reading kubelet configuration: ",
		},
		{
			name: "domain error is handed over without the text",
			make: func(t tree) {
				write(t.T, at(t, "NodeConfig"), "dnsIP: 172.30.0.10\ndnsDomain: Geheim!\n")
				hand(t.T, t.root)
				closeDir(t)
			},
			files: []string{"NodeConfig"}, facts: true,
			err: "NodeConfig:2:12: dnsDomain: expected a domain name such as cluster.local, got something else, which node-dns check-config shows to root",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := openRoot(t)
			test.make(tree{t, root})
			c, err := loadUnprivileged(t, root)
			checkConfig(t, c, err)
			if got := c.ClusterDomain.String(); got != test.domain {
				t.Errorf("cluster domain %q, want %q", got, test.domain)
			}
			var names []string
			for _, file := range c.Files {
				names = append(names, strings.TrimPrefix(nameOf(root, file), root))
			}
			if diff := cmp.Diff(test.files, names); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if got := c.FactsFile != ""; got != test.facts {
				t.Errorf("FactsFile %q", c.FactsFile)
			}
			wanted, text := named(root, c.FactsWanted), ""
			if err != nil {
				text = named(root, err.Error())
			}
			if (wanted == "") != (test.wanted == "") || !strings.Contains(wanted, test.wanted) {
				t.Errorf("facts wanted: %q, want %q", wanted, test.wanted)
			}
			if (text == "") != (test.err == "") || !strings.Contains(text, test.err) {
				t.Errorf("error %q, want %q", text, test.err)
			}
			if test.err == unknown && (!errors.Is(err, fs.ErrPermission) || !strings.Contains(text, `run "origin-dns-dispatcher apply" as root, or set clusterDomain in NodeDNS`)) {
				t.Errorf("the error does not give a remedy: %s", text)
			}
		})
	}
}

// named replaces the files' paths in text by their names.
func named(root, text string) string {
	for name, path := range byName(root) {
		text = strings.ReplaceAll(text, path, name)
	}
	return text
}

// overwrite changes a file in place, regardless of its mode.
func overwrite(t *testing.T, path, text string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	chmod(t, path, 0o600)
	write(t, path, text)
	chmod(t, path, info.Mode())
}

func mkfifo(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), unix.Mkfifo(path, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// TestFactsBytes has a golden facts file.
func TestFactsBytes(t *testing.T) {
	const file = "testdata/good/node-config-arguments.yaml"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	write(t, pathOf(root, "NodeConfig"), string(text))
	c, err := Load(DefaultPaths(root))
	if err != nil {
		t.Fatal(err)
	}
	moment := time.Date(2026, 3, 4, 5, 6, 7, 8_000_000, time.UTC)
	c.Facts.Stamp.Inode, c.Facts.Stamp.Modified, c.Facts.Stamp.Changed = 4711, moment, moment
	golden.Check(t, "testdata/facts.json", string(c.Facts.Bytes()))
}

// TestParseFacts: an invalid file is rejected completely.
func TestParseFacts(t *testing.T) {
	good := func(more string) string {
		return `{"version": 1, "file": "/f", "clusterDomain": "corp.test."` + more + `}`
	}
	tests := []struct {
		name, text string
		want       string // part of the error; empty if valid
	}{
		{"good", good(""), ""},
		{"unknown field of a later release", good(`, "more": 1`), ""},
		{"empty", "", "unexpected end"},
		{"cut", good("")[:30], "unexpected end"},
		{"another version", `{"version": 2}`, "version 2, expected 1"},
		{"no version", `{"clusterDomain": "corp.test."}`, "version 0, expected 1"},
		{"the root", `{"version": 1, "clusterDomain": "."}`, "clusterDomain: expected a domain name"},
		{"a wildcard", `{"version": 1, "clusterDomain": "*.test."}`, "clusterDomain: expected a domain name"},
		{"a line break in a domain", `{"version": 1, "clusterDomain": "a\nb."}`, "reading the facts file"},
		{"a zone id", good(`, "dnsIPs": ["fe80::1%eth0"]`), "dnsIPs: expected an IP address"},
		{"IPv4-mapped address", good(`, "dnsIPs": ["::ffff:10.0.0.1"]`), "dnsIPs: expected an IP address"},
		{"empty address", good(`, "dnsIPs": [""]`), "dnsIPs: expected an IP address"},
		{"unspecified node IP", good(`, "nodeIP": "0.0.0.0"`), "nodeIP: expected an IP address of the node"},
		{"multicast bind address", good(`, "dnsBindAddress": "224.0.0.1:53"`), "dnsBindAddress: expected IP:PORT"},
		{"unspecified nameserver", good(`, "dnsNameservers": ["0.0.0.0"]`), "dnsNameservers: expected a nameserver"},
		{"network of all addresses", good(`, "podCIDRs": ["0.0.0.0/0"]`), "podCIDRs: expected a network"},
		{"host bits", good(`, "podCIDRs": ["10.1.2.3/16"]`), "podCIDRs: expected a network"},
		{"a relative path", good(`, "masterKubeConfig": "x"`), "a path: expected an absolute one"},
		{"path with ..", good(`, "masterKubeConfig": "/a/../b"`), "a path: expected an absolute one"},
		{"a line break in a path", good(`, "kubeletResolvConf": "/a\nb"`), "a path: expected the path of a file"},
		{"line 0", good(`, "lines": {"dnsIP": 0}`), "lines: expected a line"},
		{"a line break in a key", good(`, "lines": {"dns\nIP": 1}`), "lines: expected one short line"},
		{"error without a position", good(`, "faults": [{"line": 1, "expected": "x"}]`), "faults: expected a line and a column"},
		{"error text too long", good(`, "faults": [{"line": 1, "column": 1, "expected": "` + strings.Repeat("x", 1000) + `"}]`), "faults: expected one short line"},
		{"long", good(strings.Repeat(" ", maxFile)), "longer than"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			facts, err := ParseFacts([]byte(test.text))
			text := ""
			if err != nil {
				text = err.Error()
			}
			if (text == "") != (test.want == "") || !strings.Contains(text, test.want) {
				t.Errorf("got %q, want %q", text, test.want)
			}
			if err != nil && asJSON(t, facts) != asJSON(t, Facts{}) {
				t.Errorf("got partial facts %+v", facts)
			}
		})
	}
}

// FuzzParseFacts: an accepted file makes a valid Config, and is written back unchanged.
func FuzzParseFacts(f *testing.F) {
	data, err := os.ReadFile("testdata/facts.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"version": 1, "file": "/f", "faults": [{"line": 1, "column": 2, "key": "k", "expected": "x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		facts, err := ParseFacts(data)
		if err != nil {
			return
		}
		text := facts.Bytes()
		again, err := ParseFacts(text)
		if err != nil || !bytes.Equal(again.Bytes(), text) {
			t.Errorf("%v\n%s\n%s", err, text, again.Bytes())
		}
		c := defaults()
		err = facts.put(&c, "/root")
		if c.ClusterDomain.IsZero() {
			err = errors.Join(err, errors.New("not known")) // because of a fault or by mistake
			c.ClusterDomain = defaults().ClusterDomain
		}
		checkConfig(t, c, err)
		checkPlacement(t, c)
	})
}

// TestClusterSources: keys of the same names in node-dns.yaml have other meanings and do not
// replace the places of the cluster's keys, whether the cluster's file was read directly or through
// facts.
func TestClusterSources(t *testing.T) {
	root := t.TempDir()
	paths := DefaultPaths(root)
	for path, text := range map[string]string{
		paths.Kubelet: "kind: KubeletConfiguration\nclusterDNS: [10.96.0.10]\nresolvConf: /run/x\n", paths.NodeDNS: "resolvConf: none\nclusterDNS: [10.96.0.11]\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	read, err := Load(paths)
	if err != nil {
		t.Fatal(err)
	}
	handed := defaults()
	if err := read.Facts.put(&handed, root); err != nil {
		t.Fatal(err)
	}
	if _, err := handed.load(paths.NodeDNS, nodeDNSFormat, root); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]Config{"as it is read": read, "as it is handed over": handed} {
		for key, lines := range map[string][2]int{"clusterDNS": {2, 2}, "resolvConf": {3, 1}, "listen": {}} {
			theirs, ours := "default", "default"
			if lines[0] > 0 {
				theirs, ours = fmt.Sprintf("%s %s:%d", key, paths.Kubelet, lines[0]), fmt.Sprintf("%s %s:%d", key, paths.NodeDNS, lines[1])
			}
			if got := c.WhereCluster(key); got != theirs {
				t.Errorf("%s: the cluster's %s: %s, expected %s", name, key, got, theirs)
			}
			if got := c.Where(key); got != ours {
				t.Errorf("%s: %s: %s, expected %s", name, key, got, ours)
			}
		}
	}
}
