package nodedns_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestManPages: mandoc and groff report no warnings for our man pages, and the pages refer to each
// other by their correct names.
func TestManPages(t *testing.T) {
	lab.NeedPrograms(t, "mandoc", "groff")
	pages, err := filepath.Glob("man/*")
	if err != nil || len(pages) < 3 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	ours := regexp.MustCompile(`(?m)^\.(?:Xr|Dt) (\S*(?i:node-dns|origin-dns|node_dns)\S*) (\d)`)
	for _, page := range pages {
		for _, argv := range [][]string{{"mandoc", "-Tlint", "-Wwarning", page}, {"groff", "-mandoc", "-ww", "-z", page}} {
			if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v: %v\n%s", argv, err, out)
			}
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range ours.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat("man/" + strings.ToLower(match[1]) + "." + match[2]); err != nil {
				t.Errorf("%s: %s: %v", page, match[0], err)
			}
		}
	}
}
