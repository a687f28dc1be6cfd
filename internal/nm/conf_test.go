package nm

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/test/lab"
)

const ourSnippet = "/run/NetworkManager/conf.d/90-node-dns.conf"

// confTests are files of a host and the expected Conf.
func confTests() []struct {
	name     string
	files    map[string]string
	want     Conf
	decision string
} {
	const main, etc, run, lib = mainConf, "/etc/NetworkManager/conf.d/", "/run/NetworkManager/conf.d/", "/usr/lib/NetworkManager/conf.d/"
	files := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	manager := func(value, file string) Conf { return Conf{RcManager: Setting{Value: value, File: file}} }
	dns := func(value, file string) Conf { return Conf{DNS: Setting{Value: value, File: file}} }
	return []struct {
		name     string
		files    map[string]string
		want     Conf
		decision string
	}{
		{name: "no files"},
		{name: "no relevant keys", files: files(main, "[main]\nplugins=keyfile\n#rc-manager=file\n[logging]\ndns=none\n", etc+"a.conf", "")},
		{
			name: "openshift-ansible", files: files(etc+"99-origin.conf", "[main]\ndns=none\n"),
			want: dns("none", etc+"99-origin.conf"), decision: "dns=none in " + etc + "99-origin.conf",
		},
		{name: "dns=default", files: files(main, "[main]\ndns=default\n"), want: dns("default", main)},
		{
			name: "files of a directory in order", files: files(etc+"20.conf", "[main]\nrc-manager=file\n", etc+"10.conf", "[main]\nrc-manager=symlink\n"),
			want: manager("file", etc+"20.conf"), decision: "rc-manager=file in " + etc + "20.conf",
		},
		{
			name:  "directories in order",
			files: files(lib+"z.conf", "[main]\nrc-manager=a\n", run+"z2.conf", "[main]\nrc-manager=b\n", main, "[main]\nrc-manager=c\n", etc+"a.conf", "[main]\nrc-manager=d\n"),
			want:  manager("d", etc+"a.conf"), decision: "rc-manager=d in " + etc + "a.conf",
		},
		{
			name:  "NetworkManager.conf after the first two",
			files: files(lib+"z.conf", "[main]\nrc-manager=a\n", run+"z2.conf", "[main]\nrc-manager=b\n", main, "[main]\nrc-manager=c\n"),
			want:  manager("c", main), decision: "rc-manager=c in " + main,
		},
		{
			name: "hidden file", files: files(lib+"a.conf", "[main]\nrc-manager=file\n", etc+"a.conf", ""),
		},
		{
			name: "surrounding blanks", files: files(main, " [main] \n  rc-manager \t=  file \r\n"),
			want: manager("file", main), decision: "rc-manager=file in " + main,
		},
		{
			name: "last value wins, duplicate group", files: files(main, "[main]\nrc-manager=a\n[device]\nrc-manager=b\n[main]\nrc-manager=c\n"),
			want: manager("c", main), decision: "rc-manager=c in " + main,
		},
		{
			// This file is read last and overrides our snippet.
			name: "empty value", files: files(main, "[main]\nrc-manager=\n"), want: manager("", main), decision: "rc-manager= in " + main,
		},
		{name: "+= and -= on a key that is not a list", files: files(main, "[main]\ndns+=none\nrc-manager-=file\n")},
		{name: "another group", files: files(main, "[ main ]\ndns=none\n[Main]\ndns=none\n")},
		{name: "switched off", files: files(etc+"a.conf", "[main]\nrc-manager=file\n[.config]\nenable=False\n")},
		{
			name: "switched on", files: files(etc+"a.conf", "[.config]\nenable=true\n[main]\nrc-manager=file\n"),
			want: manager("file", etc+"a.conf"), decision: "rc-manager=file in " + etc + "a.conf",
		},
		{
			name: "enabled by a condition", files: files(etc+"a.conf", "[.config]\nenable=nm-version-min:1.0\n[main]\nrc-manager=file\n"),
			want: manager("file", etc+"a.conf"), decision: "rc-manager=file in " + etc + "a.conf",
		},
		{
			name: "NetworkManager.conf cannot be switched off", files: files(main, "[.config]\nenable=false\n[main]\nrc-manager=file\n"),
			want: manager("file", main), decision: "rc-manager=file in " + main,
		},
		{name: "invalid snippet name", files: files(etc+"a.conf.rpmsave", "[main]\nrc-manager=file\n", etc+"b.CONF", "[main]\nrc-manager=file\n")},
		{name: "node-dns snippet", files: files(ourSnippet, "[main]\nrc-manager=unmanaged\n")},
		{
			name: "node-dns snippet replaced", files: files(ourSnippet, "[main]\nrc-manager=unmanaged\n", etc+"90-node-dns.conf", ""),
			want: Conf{Shadow: etc + "90-node-dns.conf"}, decision: etc + "90-node-dns.conf",
		},
		{name: "file hidden by the node-dns snippet", files: files(ourSnippet, "[main]\nrc-manager=unmanaged\n", lib+"90-node-dns.conf", "[main]\nrc-manager=file\n")},
		{
			name: "invalid content of a line", files: files(main, "[main]\nrc-manager=a\x1b[2Jb\n"),
			want: manager("a\ufffd[2Jb", main), decision: "rc-manager=a\ufffd[2Jb in " + main,
		},
	}
}

// TestReadConfLines: a setting has the number of the line that counts, which is the last one.
func TestReadConfLines(t *testing.T) {
	root := t.TempDir()
	lay(t, root, map[string]string{mainConf: "[main]\ndns=default\n# dns=none\n\n[main]\r\ndns=none\nrc-manager=file"})
	want := Conf{DNS: Setting{"none", mainConf, 6}, RcManager: Setting{"file", mainConf, 7}}
	if got, err := ReadConf(root, ourSnippet); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestReadConf(t *testing.T) {
	for _, test := range confTests() {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			lay(t, root, test.files)
			got, err := ReadConf(root, ourSnippet)
			got.DNS.Line, got.RcManager.Line = 0, 0 // TestReadConfLines covers them
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if got.Decision() != test.decision {
				t.Errorf("decision %q, want %q", got.Decision(), test.decision)
			}
		})
	}
}

func lay(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadConfIsRight compares the results with those of the installed NetworkManager, which always
// reads the real /run.
func TestReadConfIsRight(t *testing.T) {
	lab.NeedPrograms(t, "NetworkManager")
	for _, test := range confTests() {
		inRun := func(path string) bool { return strings.HasPrefix(path, "/run/") }
		if slices.ContainsFunc(slices.Collect(maps.Keys(test.files)), inRun) || strings.Contains(test.decision, "\ufffd") {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			lay(t, root, map[string]string{mainConf: "", "/etc/NetworkManager/conf.d/0.conf": "", "/usr/lib/NetworkManager/conf.d/0.conf": ""})
			lay(t, root, test.files)
			out, err := exec.Command("NetworkManager", "--print-config", "--config="+root+mainConf,
				"--config-dir="+root+"/etc/NetworkManager/conf.d", "--system-config-dir="+root+"/usr/lib/NetworkManager/conf.d",
				"--intern-config="+root+"/none").CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			said := keyFile(out)
			for key, want := range map[string]string{"dns": test.want.DNS.Value, "rc-manager": test.want.RcManager.Value} {
				if got := said[keyOf{"main", key}].value; got != want {
					t.Errorf("NetworkManager has %s=%q, got %q\n%s", key, got, want, out)
				}
			}
		})
	}
}

func TestReadConfUnreadable(t *testing.T) {
	root := t.TempDir()
	lay(t, root, map[string]string{mainConf: "[main]\ndns=none\n"})
	if err := os.MkdirAll(filepath.Join(root, "/etc/NetworkManager/conf.d/a.conf"), 0o755); err != nil {
		t.Fatal(err)
	}
	if c, err := ReadConf(root, ourSnippet); err == nil || c != (Conf{}) {
		t.Errorf("a directory with a snippet's name: got %+v, %v", c, err)
	}
}

// FuzzKeyFile: a setting at the end wins, whatever comes before it.
func FuzzKeyFile(f *testing.F) {
	for _, test := range confTests() {
		for _, text := range test.files {
			f.Add([]byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		values := keyFile(append(bytes.Clone(data), "\n[main]\nrc-manager=last\n"...))
		if got := values[keyOf{"main", "rc-manager"}].value; got != "last" {
			t.Errorf("got rc-manager %q", got)
		}
		for key, value := range values {
			if strings.ContainsAny(key.group+key.key+value.value, "\n") {
				t.Errorf("got a line break in %q=%q", key, value.value)
			}
		}
	})
}

// TestWritesResolvConf: migrate and the hook decided this by lists of their own.
func TestWritesResolvConf(t *testing.T) {
	for _, row := range []struct {
		dns, rcManager string
		want           bool
	}{
		{"", "", true},
		{"default", "symlink", true},
		{"systemd-resolved", "file", true},
		{"dnsmasq", "resolvconf", true},
		{"none", "symlink", false},
		{"default", "unmanaged", false},
		{"default", "immutable", false},
	} {
		if got := WritesResolvConf(row.dns, row.rcManager); got != row.want {
			t.Errorf("dns=%s, rc-manager=%s: got %v", row.dns, row.rcManager, got)
		}
	}
}
