package atomicfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// victimEnv holds the job of a test binary that is started to be killed.
const victimEnv = "ATOMICFILE_TEST_VICTIM"

// A job is one change, and the step at which the process kills itself.
type job struct {
	Verb, Path, Text string
	KillAt           int
}

func (j job) run(w Writer) (changed bool, err error) {
	switch j.Verb {
	case "write":
		return w.Write(j.Path, []byte(j.Text), 0o644)
	case "symlink":
		return w.Symlink(j.Path, j.Text)
	case "remove":
		return w.Remove(j.Path)
	}
	return false, fmt.Errorf("unknown verb %q", j.Verb)
}

// victim does the job in a process of its own and kills it with SIGKILL before the step with the
// number KillAt. It returns the exit code if the process survives.
func victim(text string) int {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	number := 0
	_, err := j.run(Writer{Step: func(step string) {
		fmt.Println(step)
		if number == j.KillAt {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		number++
	}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// kill runs the job in a process that is killed at the step, and reports whether it was. steps are
// the steps that it began.
func (j job) kill(t *testing.T, step int) (steps []string, killed bool) {
	t.Helper()
	j.KillAt = step
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	// By default the race detector sleeps for a second at exit.
	cmd.Env = append(os.Environ(), victimEnv+"="+string(text), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status := exit.Sys().(syscall.WaitStatus)
		killed = status.Signaled() && status.Signal() == syscall.SIGKILL
	}
	if err != nil && !killed {
		t.Fatal(err)
	}
	return strings.Fields(string(out)), killed
}

// testKills kills the job at each of its steps. After each kill, whole reports whether the
// remaining state is valid. The job is then run to completion, and must leave after and no
// temporary file.
func testKills(t *testing.T, j job, prepare func(), whole func(thing) bool, after thing) (steps []string) {
	t.Helper()
	for step := 0; ; step++ {
		prepare()
		steps, killed := j.kill(t, step)
		if !killed {
			if step != len(steps) || step == 0 {
				t.Errorf("survived with steps %q", steps)
			}
			return steps
		}
		if got := at(t, j.Path); !whole(got) {
			t.Errorf("killed at %q: %v", steps[step], got)
		}
		_, err := j.run(Writer{})
		if got := at(t, j.Path); err != nil || got != after {
			t.Errorf("rerun after a kill at %q: %v, %v; want %v", steps[step], got, err, after)
		}
		checkNoTemp(t, filepath.Dir(j.Path))
	}
}

func TestKill(t *testing.T) {
	link := thing{link: "../run/stub.conf"}
	tests := []struct {
		name          string
		verb, text    string
		before, after thing
		left          thing
		steps         string
	}{
		{"write new", "write", "new\n", thing{}, file("new\n"), thing{}, "create chmod label write sync rename syncdir"},
		{"write over a file", "write", "new\n", file("old and longer\n"), file("new\n"), thing{}, "create chmod label write sync rename syncdir"},
		{"write over a link", "write", "new\n", link, file("new\n"), thing{}, "create chmod label write sync rename syncdir"},
		{"write after a kill", "write", "new\n", file("old\n"), file("new\n"), file("half"), "leftover create chmod label write sync rename syncdir"},
		{"link over a file", "symlink", link.link, file("old\n"), link, thing{}, "symlink label rename syncdir"},
		{"remove", "remove", "", file("old\n"), thing{}, thing{}, "remove syncdir"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "resolv.conf")
			prepare := func() {
				if _, err := (Writer{}).Remove(path); err != nil {
					t.Fatal(err)
				}
				tt.before.put(t, path)
				tt.left.put(t, tempName(path))
			}
			whole := func(th thing) bool { return th == tt.before || th == tt.after }
			steps := testKills(t, job{Verb: tt.verb, Path: path, Text: tt.text}, prepare, whole, tt.after)
			if got := strings.Join(steps, " "); got != tt.steps {
				t.Errorf("steps %q, want %q", got, tt.steps)
			}
		})
	}
}
