package lab

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Machines makes Main run n of the package's tests at a time, each in its own machine, because they
// mostly wait. The output of a test is shown at its end. A single test, and tests with flags for
// one process, such as -bench and profiles, run in one machine.
func Machines(n int) Option {
	return func(c *config) { c.machines = n }
}

// oneProcess are the flags that only make sense for a single process.
var oneProcess = []string{"bench", "failfast", "blockprofile", "coverprofile", "cpuprofile", "gocoverdir", "memprofile", "mutexprofile", "trace"}

// apart lists the tests that run in their own machines, or nil if all share one.
func (c config) apart() []string {
	run := flagValue("run")
	isSet := func(name string) bool { return flagValue(name) != "" && flagValue(name) != "false" }
	if c.machines < 2 || flag.NArg() > 0 || strings.Contains(run, "/") || slices.ContainsFunc(oneProcess, isSet) {
		return nil
	}
	if run == "" {
		run = "."
	}
	out, err := exec.Command("/proc/self/exe", "-test.list="+run).Output()
	if err != nil {
		return nil // the tests themselves report the error
	}
	names := slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool { return strings.HasPrefix(name, "Benchmark") })
	if len(names) < 2 {
		return nil
	}
	return names
}

func flagValue(name string) string {
	f := flag.Lookup("test." + name)
	if f == nil {
		return ""
	}
	return f.Value.String()
}

// runApart runs each test in its own machine, several at a time, and returns the exit status of
// all.
func (c config) runApart(dir string, names []string) int {
	begun := time.Now()
	var mu sync.Mutex // guards status and the output
	var status int
	var machines sync.WaitGroup
	next := make(chan string)
	for range c.machines {
		machines.Go(func() {
			for name := range next {
				var out bytes.Buffer
				code := startInside(dir, &out, slices.Concat(os.Args[1:], []string{
					"-test.run=^" + regexp.QuoteMeta(name) + "$", "-test.testlogfile=" + logOf(dir, name),
					"-test.timeout=" + timeLeft(flagValue("timeout"), begun).String(),
				}))
				mu.Lock()
				status = max(status, code)
				os.Stdout.Write(withoutVerdict(out.Bytes()))
				mu.Unlock()
			}
		})
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	machines.Wait()
	if err := joinLogs(dir, names); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		return 1
	}
	if status != 0 {
		fmt.Println(marker() + "FAIL")
		return status
	}
	fmt.Println(marker() + "PASS")
	return 0
}

// timeLeft returns the time left for a test that begins now, if -timeout for all tests started at
// begun. 0 means no limit.
func timeLeft(limit string, begun time.Time) time.Duration {
	all, _ := time.ParseDuration(limit)
	if all <= 0 {
		return 0
	}
	return max(all-time.Since(begun), time.Nanosecond)
}

// marker begins the lines of package testing itself if `go test -json` reads them (cmd/test2json).
func marker() string {
	if flagValue("v") == "test2json" {
		return "\x16"
	}
	return ""
}

// verdict matches the last line of a test's process. Main prints a single one at the end.
var verdict = regexp.MustCompile(`(?m)^\x16?(PASS|FAIL)\n\z`)

func withoutVerdict(out []byte) []byte {
	return verdict.ReplaceAll(out, nil)
}

// logHeader begins the file that tells `go test` which files a test has used (go help cache). The
// rest are lines.
const logHeader = "# test log\n"

func logOf(dir, name string) string { return filepath.Join(dir, name+".testlog") }

// joinLogs writes the log file that `go test` asked for, covering all tests. Its paths are relative
// to the working directory.
func joinLogs(dir string, names []string) error {
	file := flagValue("testlogfile")
	if file == "" {
		return nil
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	all := bytes.NewBufferString(logHeader)
	for _, name := range names {
		data, err := os.ReadFile(logOf(dir, name))
		if err != nil {
			return fmt.Errorf("reading the accesses of %s: %w", name, err)
		}
		fmt.Fprintf(all, "chdir %s\n", here)
		all.Write(bytes.TrimPrefix(data, []byte(logHeader)))
	}
	return os.WriteFile(file, all.Bytes(), 0o666)
}
