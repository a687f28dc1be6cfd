package rpm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFIPS: with the package's build option, the demo and DNS over TLS work while every algorithm
// that FIPS 140-3 does not approve is an error.
func TestFIPS(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the program and all that it imports")
	}
	const top = "../.."
	spec, err := os.ReadFile(filepath.Join(top, "packaging/rpm/node-dns.spec"))
	if err != nil {
		t.Fatal(err)
	}
	const option = "GOFIPS140=v1.0.0"
	if want := "%if %{with fips}\nexport " + option + "\n%endif\n"; !strings.Contains(string(spec), want) {
		t.Errorf("the spec lacks\n%s", want)
	}
	program := filepath.Join(t.TempDir(), "node-dns")
	run := func(want string, name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = top
		cmd.Env = append(os.Environ(), option, "CGO_ENABLED=0")
		if name != "go" {
			cmd.Env = append(cmd.Env, "GODEBUG=fips140=only")
		}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("%s %v: %v, want %q:\n%s", name, args, err, want, out)
		}
	}
	run("", "go", "build", "-o", program, "./cmd/node-dns")
	run("All 14 checks passed.", program, "demo")
	tests := filepath.Join(t.TempDir(), "forward.test")
	run("", "go", "test", "-c", "-o", tests, "./internal/dns/forward")
	run("PASS", tests, "-test.run", "TestTLSOneConnectionForAll|TestTLSIsNeverDowngraded|TestUpgrade$")
}
