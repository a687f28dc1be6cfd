package rpm

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/internal/test/rpmbuild"
)

var installed = []string{"usr/sbin/node-dns", "usr/libexec/node-dns/origin-dns-dispatcher", "usr/libexec/node-dns/node-dns-intercept"}

// extract unpacks a package and returns the paths of its programs.
func extract(t testing.TB, file string) []string {
	t.Helper()
	lab.NeedPrograms(t, "rpm2cpio", "cpio")
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", `rpm2cpio "$0" | cpio --quiet --extract --make-directories`, file)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("unpacking %s: %v\n%s", file, err, out)
	}
	var all []string
	for _, path := range installed {
		all = append(all, filepath.Join(dir, path))
	}
	return all
}

// maxHookSize is in bytes, for amd64. NetworkManager starts the program for each event. As a PIE it
// is a tenth larger than TestSize of cmd/origin-dns-dispatcher allows.
const maxHookSize = 5_970_000

// TestPrograms: the programs are position-independent, have a build ID, need no library of the
// host, and do not contain paths of the build machine. NetworkManager's hook is small.
func TestPrograms(t *testing.T) {
	p := rpmbuild.Build(t, 1, rpmbuild.Systemd)
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range extract(t, p.Main) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			program, err := elf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer program.Close()
			if program.Type != elf.ET_DYN {
				t.Errorf("got the type %v, want a PIE", program.Type)
			}
			if program.Section(".note.gnu.build-id") == nil {
				t.Error("got no build ID")
			}
			if libraries, err := program.ImportedLibraries(); err != nil || len(libraries) > 0 {
				t.Errorf("got the libraries %v, %v", libraries, err)
			}
			if symbols, err := program.ImportedSymbols(); err == nil && len(symbols) > 0 {
				t.Errorf("got the imported symbols %v", symbols)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Base(path) == "origin-dns-dispatcher" && program.Machine == elf.EM_X86_64 && len(data) >= maxHookSize {
				t.Errorf("it has %d bytes, want less than %d", len(data), maxHookSize)
			}
			for _, place := range []string{rpmbuild.Root(t), home + "/", "/BUILD/", "rpmbuild"} {
				if i := bytes.Index(data, []byte(place)); i >= 0 {
					t.Errorf("it contains a path of the build machine: %q", data[max(0, i-50):min(len(data), i+100)])
				}
			}
		})
	}
}

// TestVersion: the programs print the version and release of their package, and the commit that it
// was built from.
func TestVersion(t *testing.T) {
	p := rpmbuild.Build(t, 1, rpmbuild.Systemd)
	program := extract(t, p.Main)[0]
	if got, want := output(t, program, "--version"), "node-dns "+rpmbuild.Version+"-1\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := output(t, program, "--root", t.TempDir(), "version"), "\ncommit "+rpmbuild.Revision+"\n"; !strings.Contains(got, want) {
		t.Errorf("got %q, want it to contain %q", got, want)
	}
}

// TestRebuild: the source package alone, without a network, builds the same package byte for byte.
func TestRebuild(t *testing.T) {
	p := rpmbuild.Build(t, 1, rpmbuild.Systemd)
	top := t.TempDir()
	cmd := exec.Command("rpmbuild", "--macros", rpmbuild.MacroPath(t, p), "--rebuild", "--quiet", "--nodeps", "--dbpath", top+"/db",
		"--define", "_topdir "+top, p.Source)
	// Go must not find modules elsewhere, including in this machine's cache.
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOMODCACHE="+top+"/modules", "GOFLAGS=",
		"SOURCE_DATE_EPOCH="+query(t, p.Source, "--queryformat", "%{BUILDTIME}"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("rebuilding: %v\n%s", err, out)
	}
	rebuilt, err := filepath.Glob(top + "/RPMS/*/" + filepath.Base(p.Main))
	if err != nil || len(rebuilt) != 1 {
		t.Fatalf("rebuilding made %v, %v", rebuilt, err)
	}
	const digest = "%{PAYLOADDIGEST}"
	if want, got := query(t, p.Main, "--queryformat", digest), query(t, rebuilt[0], "--queryformat", digest); want != got {
		t.Errorf("the source package builds another package: got %s, want %s", got, want)
	}
}
