package lab

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// toldEnv makes TestTold fail.
const toldEnv = "NODEDNS_LAB_TOLD"

func TestTold(t *testing.T) {
	New(t)
	if os.Getenv(toldEnv) != "" {
		t.Error("told to fail")
	}
}

// TestMachines runs this binary again, as `go test` does. Each test is reported once, all used
// files are logged, and one failing test fails the whole.
func TestMachines(t *testing.T) {
	Need(t, "go")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	outside := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, stageEnv+"=") || strings.HasPrefix(v, binariesEnv+"=")
	})
	for _, row := range []struct {
		name, told, run string
		machines        int // number of different temporary directories
		ok              bool
	}{
		{"two", "", "^(TestTold|TestPollGivesUp)$", 2, true},
		{"one fails", "yes", "^(TestTold|TestPollGivesUp)$", 2, false},
		{"one alone", "", "^TestTold$", 1, true},
		{"none", "", "^TestNowhere$", 1, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			looked := filepath.Join(t.TempDir(), "testlog")
			cmd := exec.Command(self, "-test.run="+row.run, "-test.v=test2json", "-test.timeout=2m", "-test.testlogfile="+looked)
			cmd.Env = append(slices.Clone(outside), toldEnv+"="+row.told)
			out, err := cmd.CombinedOutput()
			if (err == nil) != row.ok {
				t.Errorf("it ended with %v\n%s", err, out)
			}
			for _, name := range []string{"TestTold", "TestPollGivesUp"} {
				want := 0
				if regexp.MustCompile(row.run).MatchString(name) {
					want = 1
				}
				if got := bytes.Count(out, []byte("=== RUN   "+name+"\n")); got != want {
					t.Errorf("%s is reported %d times\n%s", name, got, out)
				}
			}
			end := map[bool]string{true: "\x16PASS\n", false: "\x16FAIL\n"}[row.ok]
			if bytes.Count(out, []byte(end)) != 1 || !bytes.HasSuffix(out, []byte(end)) {
				t.Errorf("want exactly one final verdict\n%s", out)
			}
			log, err := os.ReadFile(looked)
			if err != nil || !bytes.HasPrefix(log, []byte(logHeader)) || bytes.Count(log, []byte(logHeader)) != 1 {
				t.Fatalf("the log of used files: %v\n%s", err, log)
			}
			if got := bytes.Count(log, []byte("\nchdir ")); row.machines > 1 && got != row.machines {
				t.Errorf("%d machines logged their used files, want %d\n%s", got, row.machines, log)
			}
		})
	}
}

// TestTimeLeft: a later test has less time, but never 0, which would mean no limit.
func TestTimeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		time.Sleep(10 * time.Minute)
		for limit, want := range map[string]time.Duration{"25m0s": 15 * time.Minute, "10m0s": 1, "1m0s": 1, "0s": 0, "": 0} {
			if got := timeLeft(limit, begun); got != want {
				t.Errorf("%q leaves %v, want %v", limit, got, want)
			}
		}
	})
}

func TestWithoutVerdict(t *testing.T) {
	for in, want := range map[string]string{
		"PASS\n": "", "a\nPASS\n": "a\n", "\x16PASS\n": "", "--- FAIL: TestA\nFAIL\n": "--- FAIL: TestA\n",
		"PASS\npanic: no\n": "PASS\npanic: no\n", "no PASS\n": "no PASS\n", "": "",
	} {
		if got := string(withoutVerdict([]byte(in))); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}
