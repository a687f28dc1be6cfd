package netns

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// shell is a bash that runs command lines one after the other, as typed by root. A background job
// stays for the next command.
type shell struct {
	t       *testing.T
	input   io.Writer
	output  *os.File // output of all commands
	read    int64    // how much of it was returned
	pipe    *os.File // read by results
	results *bufio.Reader
}

// newShell starts a bash in dir. env is added to PATH and HOME or overrides them. The shell ends
// with the test, its jobs with the machine.
func newShell(t *testing.T, dir string, env ...string) *shell {
	t.Helper()
	lab.Need(t, "bash")
	output, err := os.OpenFile("/run/shell-output", os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	results, resultsEnd, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "--norc")
	cmd.Dir, cmd.Env = dir, append([]string{"PATH=" + lab.Path, "HOME=" + os.Getenv("HOME"), "GORACE=atexit_sleep_ms=0"}, env...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = output, output, []*os.File{resultsEnd}
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	resultsEnd.Close()
	t.Cleanup(func() {
		input.Close()
		cmd.Process.Kill()
		cmd.Wait()
		results.Close()
		output.Close()
	})
	return &shell{t: t, input: input, output: output, pipe: results, results: bufio.NewReader(results)}
}

// stuck is the time limit of a command, such as go build on a busy machine.
const stuck = 5 * time.Minute

// run runs one command line, which must exit 0, and returns the output since the previous one.
func (s *shell) run(line string) string {
	s.t.Helper()
	quoted := "'" + strings.ReplaceAll(line, "'", `'\''`) + "'"
	fmt.Fprintf(s.input, "eval %s </dev/null 3>&-; echo $? >&3\n", quoted)
	if err := s.pipe.SetReadDeadline(time.Now().Add(stuck)); err != nil {
		s.t.Fatal(err)
	}
	result, err := s.results.ReadString('\n')
	text := s.printed()
	s.t.Logf("# %s\n%s", line, text)
	if err != nil || result != "0\n" {
		s.t.Fatalf("%s: exit code %q, %v", line, strings.TrimSpace(result), err)
	}
	return text
}

func (s *shell) printed() string {
	s.t.Helper()
	data, err := io.ReadAll(io.NewSectionReader(s.output, s.read, 1<<30))
	if err != nil {
		s.t.Fatal(err)
	}
	s.read += int64(len(data))
	return string(data)
}
