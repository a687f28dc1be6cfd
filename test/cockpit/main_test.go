// Package cockpit tests the page for Cockpit (cockpit/ of this repository): its functions with
// Node.js, and the whole page in Chromium, with the real cockpit-ws and cockpit-bridge on a booted
// machine where node-dns runs.
package cockpit

import (
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// shots is the directory for pictures of the page; "" disables them.
var shots = flag.String("cockpit.shots", "", "write pictures of the page into this `directory`")

// root is the module's directory.
const root = "../.."

func TestMain(m *testing.M) {
	lab.Main(m, lab.Build("./cmd/node-dns", "./cmd/origin-dns-dispatcher"), lab.Root())
}

// TestFunctions runs the tests of the page's functions, which decide what to show from the JSON of
// the Go tests' golden files.
func TestFunctions(t *testing.T) {
	lab.NeedPrograms(t, "node")
	readInputs(t, "cockpit", "test/cockpit/page", "internal/admin/control/testdata", "internal/admin/doctor/testdata", "packaging/journal", "docs/reference")
	out, err := exec.Command("node", "--test", "--test-reporter=spec", "page/").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// readInputs opens the files of these directories, so that `go test` runs the test again when one
// has changed.
func readInputs(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			_, err = os.ReadFile(path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
