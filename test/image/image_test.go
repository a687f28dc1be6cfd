// Package image tests the result of `make image`: the OCI layout, the files of the image, its
// programs, and the bill of materials.
package image

import (
	"bytes"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/golden"
	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/internal/test/rpmbuild"
	"github.com/node-dns/node-dns/internal/test/sbomtest"
)

const (
	version  = "1.2.3~rc1"
	revision = "0123456789abcdef0123456789abcdef01234567"
	product  = "node-dns-" + version + "-oci"
)

func TestMain(m *testing.M) { lab.Main(m, lab.Before(fetch)) }

// fetch downloads the modules of the image's programs and of those that write it, while the network
// is reachable.
func fetch() error {
	for _, dir := range []string{"../..", "../../packaging"} {
		if err := exec.Command("go", "-C", dir, "mod", "download").Run(); err != nil {
			return err
		}
	}
	return nil
}

// build runs `make image` in a source tree and returns the paths of the image and its bill of
// materials. ARCHES selects architectures; compiling for all takes minutes.
func build(t *testing.T, tree, arches string) (image, sbom string) {
	t.Helper()
	dist := rpmbuild.Make(t, tree, "image", "ARCHES="+arches, "VERSION="+version, "REVISION="+revision)
	return filepath.Join(dist, product+".tar"), filepath.Join(dist, product+".spdx.json")
}

// platforms are the names that OCI has for RPM's architectures.
var platforms = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x"}

// TestImage builds the image for the architectures in the environment variable ARCHES, by default
// only for x86_64.
func TestImage(t *testing.T) {
	lab.NeedPrograms(t, "go", "make", "dpkg-query")
	root := rpmbuild.Root(t)
	rpmbuild.Sources(t, root) // go test runs this test again when a source has changed
	arches := os.Getenv("ARCHES")
	if arches == "" {
		arches = "x86_64"
	}
	tar, sbom := build(t, root, arches)
	var want []string
	for _, arch := range strings.Fields(arches) {
		want = append(want, platforms[arch])
	}
	images := readLayout(t, tar, want)

	t.Run("reproducible", func(t *testing.T) {
		// Another directory, and no git.
		tree := filepath.Join(t.TempDir(), "tree")
		if err := rpmbuild.CopyTree(tree, root); err != nil {
			t.Fatal(err)
		}
		tar2, sbom2 := build(t, tree, arches)
		for _, pair := range [][2]string{{tar, tar2}, {sbom, sbom2}} {
			if !bytes.Equal(read(t, pair[0]), read(t, pair[1])) {
				t.Errorf("the second build of %s has other bytes", filepath.Base(pair[0]))
			}
		}
	})
	for _, arch := range want {
		t.Run(arch, func(t *testing.T) {
			const limit = 30_000_000
			t.Logf("%d bytes compressed, %d unpacked", images[arch].compressed, len(images[arch].layer))
			if size := images[arch].compressed; size > limit {
				t.Errorf("got %d bytes compressed, want at most %d", size, limit)
			}
			golden.Check(t, "testdata/layer.files", listing(t, images[arch].layer))
		})
	}

	first := save(t, images[want[0]].layer)
	t.Run("users", func(t *testing.T) {
		for name, want := range map[string]string{
			"etc/passwd": "root:x:0:0:root:/root:/sbin/nologin\nnode-dns:x:65532:65532:Node DNS agent:/:/sbin/nologin\n",
			"etc/group":  "root:x:0:\nnode-dns:x:65532:\nnode-dns-admin:x:65533:\n",
		} {
			if got := string(read(t, filepath.Join(first, name))); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
	})
	t.Run("certificates", func(t *testing.T) { checkCertificates(t, read(t, filepath.Join(first, bundle))) })
	t.Run("sbom", func(t *testing.T) {
		files := map[string]string{bundle: filepath.Join(first, bundle)}
		for _, arch := range want {
			dir := save(t, images[arch].layer)
			for _, program := range []string{"usr/sbin/node-dns", "usr/libexec/node-dns/node-dns-intercept"} {
				files["linux/"+arch+"/"+program] = filepath.Join(dir, program)
			}
		}
		spec := string(read(t, filepath.Join(root, "packaging/rpm/node-dns.spec")))
		_, spec, _ = strings.Cut(spec, "\nLicense:")
		license, _, _ := strings.Cut(spec, "\n")
		sbomtest.Check(t, sbom, strings.TrimSpace(license), files)
	})
	t.Run("run", func(t *testing.T) { checkRun(t, images[want[0]].layer) })
}

const bundle = "etc/ssl/certs/ca-certificates.crt"

// checkCertificates: the image trusts the authorities of Debian's package, and not those that the
// admin of the build machine added in /usr/local.
func checkCertificates(t *testing.T, image []byte) {
	var packaged [][]byte
	files, err := filepath.Glob("/usr/share/ca-certificates/mozilla/*.crt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		block, _ := pem.Decode(read(t, file))
		packaged = append(packaged, block.Bytes)
	}
	found := 0
	for block, rest := pem.Decode(image); block != nil; block, rest = pem.Decode(rest) {
		found++
		if !slices.ContainsFunc(packaged, func(der []byte) bool { return bytes.Equal(der, block.Bytes) }) {
			t.Errorf("certificate %d is not in Debian's package", found)
		}
	}
	if found != len(packaged) || found < 100 {
		t.Errorf("got %d certificates, want the %d of Debian's package", found, len(packaged))
	}
}

// TestWithoutCertificates: without Debian's package the build fails and names it.
func TestWithoutCertificates(t *testing.T) {
	lab.NeedPrograms(t, "sh")
	programs := t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "dpkg-query"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	dist := t.TempDir()
	cmd := exec.Command(filepath.Join(rpmbuild.Root(t), "packaging/image/build"))
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "DIST="+dist, "VERSION="+version, "REVISION="+revision)
	out, err := cmd.CombinedOutput()
	const want = "image: the CA certificates come from the Debian package ca-certificates, which is not installed\n"
	if err == nil || string(out) != want {
		t.Errorf("got %v, %q, want an error and %q", err, out, want)
	}
	if left, err := os.ReadDir(dist); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// TestPlatforms: `make image` builds for all four architectures, and the index has an image for
// each. The programs are stand-ins, because compiling them takes minutes.
func TestPlatforms(t *testing.T) {
	lab.NeedPrograms(t, "go", "make")
	root := rpmbuild.Root(t)
	out, err := exec.Command("make", "-C", root, "--dry-run", "--no-print-directory", "image").Output()
	if want := "./packaging/image/build x86_64 aarch64 ppc64le s390x\n"; err != nil || string(out) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
	all := []string{"amd64", "arm64", "ppc64le", "s390x"}
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("files/a", "a")
	for _, arch := range all {
		write("programs/"+arch+"/usr/sbin/node-dns", arch)
	}
	cmd := exec.Command("go", append([]string{
		"-C", filepath.Join(root, "packaging"), "run", "./image", "-version", version, "-revision", revision, "-license", "MIT",
		"-sysusers", filepath.Join(root, "packaging/node-dns.sysusers"), "-files", dir + "/files", "-programs", dir + "/programs",
	}, all...)...)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1800000000", "CGO_ENABLED=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err = cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, &stderr)
	}
	write("image.tar", string(out))
	images := readLayout(t, dir+"/image.tar", all)
	for _, arch := range all {
		if got := string(files(t, images[arch].layer)["usr/sbin/node-dns"]); got != arch {
			t.Errorf("the image for %s has the program for %s", arch, got)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
