// Package krew tests the result of `make kubectl`: the archives of kubectl's plugin, and the
// manifest for krew.
package krew

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/internal/test/rpmbuild"
)

const (
	version  = "1.2.3~rc1"
	revision = "0123456789abcdef0123456789abcdef01234567"
	manifest = "node-dns.yaml"

	usualPlatforms = "linux/amd64 windows/amd64"
)

func TestMain(m *testing.M) { lab.Main(m, lab.Before(fetch)) }

// fetch downloads the modules while the network is reachable.
func fetch() error { return exec.Command("go", "-C", "../..", "mod", "download").Run() }

// build runs `make kubectl` in a source tree and returns the directory of the result. PLATFORMS
// selects platforms; compiling for all takes minutes.
func build(t *testing.T, tree, platforms string) string {
	t.Helper()
	return rpmbuild.Make(t, tree, "kubectl", "PLATFORMS="+platforms, "VERSION="+version, "REVISION="+revision)
}

// plugin is the manifest as krew reads it (sigs.k8s.io/krew/pkg/index).
type plugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string     `json:"version"`
		Homepage         string     `json:"homepage"`
		ShortDescription string     `json:"shortDescription"`
		Description      string     `json:"description"`
		Caveats          string     `json:"caveats"`
		Platforms        []platform `json:"platforms"`
	} `json:"spec"`
}

type platform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bin    string `json:"bin"`
}

// TestKrew builds the plugin for the platforms in the environment variable PLATFORMS, by default
// for two. Windows has none of Linux's packages, as macOS.
func TestKrew(t *testing.T) {
	lab.NeedPrograms(t, "go", "make", "sha256sum")
	root := rpmbuild.Root(t)
	rpmbuild.Sources(t, root) // go test runs this test again when a source has changed
	platforms := os.Getenv("PLATFORMS")
	if platforms == "" {
		platforms = usualPlatforms
	}
	dist := build(t, root, platforms)

	var p plugin
	if err := yaml.UnmarshalStrict(read(t, filepath.Join(dist, manifest)), &p); err != nil {
		t.Fatal(err)
	}
	if p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin" || p.Metadata.Name != "node-dns" || p.Spec.Version != "v1.2.3-rc1" {
		t.Errorf("got %+v", p)
	}
	if s := p.Spec; s.Homepage == "" || s.ShortDescription == "" || len(s.ShortDescription) > 50 || s.Description == "" { // the rules of krew-index
		t.Errorf("got %+v", s)
	}
	var built []string
	for _, platform := range p.Spec.Platforms {
		labels := platform.Selector.MatchLabels
		name := labels["os"] + "/" + labels["arch"]
		built = append(built, name)
		t.Run(name, func(t *testing.T) { checkArchive(t, dist, platform) })
	}
	if diff := cmp.Diff(strings.Fields(platforms), built); diff != "" {
		t.Errorf("platforms: %s", diff)
	}

	t.Run("reproducible", func(t *testing.T) {
		// Another directory, and no git.
		tree := filepath.Join(t.TempDir(), "tree")
		if err := rpmbuild.CopyTree(tree, root); err != nil {
			t.Fatal(err)
		}
		again := build(t, tree, platforms)
		for _, file := range files(t, dist) {
			if !bytes.Equal(read(t, filepath.Join(dist, file)), read(t, filepath.Join(again, file))) {
				t.Errorf("the second build of %s has other bytes", file)
			}
		}
		if diff := cmp.Diff(files(t, dist), files(t, again)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestPlatforms: the plugin compiles for every platform of packaging/krew/build that TestKrew does
// not build. With cold caches, each takes a minute of processor time.
func TestPlatforms(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for several platforms")
	}
	lab.NeedPrograms(t, "go")
	root := rpmbuild.Root(t)
	rpmbuild.Sources(t, root)
	script := string(read(t, filepath.Join(root, "packaging/krew/build")))
	_, rest, _ := strings.Cut(script, "|| set -- ")
	line, _, _ := strings.Cut(rest, "\n")
	compiled := 0
	for _, platform := range strings.Fields(line) {
		if slices.Contains(strings.Fields(usualPlatforms), platform) {
			continue
		}
		compiled++
		t.Run(platform, func(t *testing.T) {
			system, arch, _ := strings.Cut(platform, "/")
			vet := exec.Command("go", "vet", "./cmd/kubectl-node_dns")
			vet.Dir, vet.Env = root, append(vet.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
			if out, err := vet.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	if compiled < 4 {
		t.Errorf("only %d other platforms in %q", compiled, line)
	}
}

// checkArchive checks an archive: its checksum, its files, and the program.
func checkArchive(t *testing.T, dist string, p platform) {
	labels := p.Selector.MatchLabels
	archive := fmt.Sprintf("kubectl-node_dns-%s-%s.tar.gz", labels["os"], labels["arch"])
	if want := "https://github.com/node-dns/node-dns/releases/download/v1.2.3-rc1/" + archive; p.URI != want {
		t.Errorf("got %s, want %s", p.URI, want)
	}
	data := read(t, filepath.Join(dist, path.Base(p.URI)))
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != p.SHA256 {
		t.Errorf("the archive has the SHA-256 %x, the manifest %s", sum, p.SHA256)
	}
	dir := t.TempDir()
	var names []string
	for _, f := range unpack(t, data) {
		names = append(names, f.header.Name)
		if err := os.WriteFile(filepath.Join(dir, f.header.Name), f.data, f.header.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
	}
	bin := map[bool]string{true: "kubectl-node_dns.exe", false: "kubectl-node_dns"}[labels["os"] == "windows"]
	if diff := cmp.Diff([]string{bin, "LICENSE", "LICENSES.vendored"}, names); diff != "" || p.Bin != bin {
		t.Errorf("bin %s: %s", p.Bin, diff)
	}
	if !strings.Contains(string(read(t, filepath.Join(dir, "LICENSES.vendored"))), "\n==== vendor/github.com/gorilla/websocket/LICENSE\n") {
		t.Error("the archive lacks the license of gorilla/websocket")
	}
	info, err := buildinfo.ReadFile(filepath.Join(dir, bin))
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["GOOS"] != labels["os"] || settings["GOARCH"] != labels["arch"] || settings["CGO_ENABLED"] != "0" {
		t.Errorf("got %v", settings)
	}
	if labels["os"] == "linux" && labels["arch"] == "amd64" {
		out, err := exec.Command(filepath.Join(dir, bin), "--version").CombinedOutput()
		if want := "kubectl node-dns version " + version + " (" + revision + ")\n"; err != nil || string(out) != want {
			t.Errorf("got %q, %v, want %q", out, err, want)
		}
	}
}

type packed struct {
	header *tar.Header
	data   []byte
}

func unpack(t *testing.T, archive []byte) (all []packed) {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	for reader := tar.NewReader(zipped); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, packed{header, data})
	}
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
