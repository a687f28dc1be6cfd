package main_test

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// step is one system call that changes a file: the nth of its kind on this path in one run. Faults
// are counted per path, because strace counts per thread, and goroutines move between threads.
type step struct {
	Call string
	Path string
	N    int
}

func (s step) String() string { return fmt.Sprintf("%s %s %d", s.Call, s.Path, s.N) }

// writing are the system calls that can change a file. "?" marks those that some architectures
// lack.
const writing = "openat,write,pwrite64,ftruncate,fchmod,fchmodat,fchownat,fsync,fdatasync,renameat,?renameat2,?rename,unlinkat,?unlink," +
	"symlinkat,?symlink,linkat,?link,mkdirat,?mkdir,fsetxattr,lsetxattr"

var (
	callLine   = regexp.MustCompile(`^\d+ +(\w+)\((.*)`)
	descriptor = regexp.MustCompile(`^\d+<([^>]*)>`)
	quoted     = regexp.MustCompile(`"(/[^"]*)"`)
)

// steps parses the output of `strace -f -y` and returns the calls that changed something, in order.
func steps(trace string) []step {
	var all []step
	count := map[step]int{}
	for line := range strings.Lines(trace) {
		m := callLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		s := step{Call: m[1], Path: pathOf(m[1], m[2])}
		count[s]++
		s.N = count[s]
		opens := s.Call == "openat" && !strings.Contains(m[2], "O_CREAT")
		if s.Path != "" && !opens {
			all = append(all, s)
		}
	}
	return all
}

// pathOf returns the file that a call changes, or "" for a pipe, a socket or an event.
func pathOf(call, args string) string {
	if m := descriptor.FindStringSubmatch(args); m != nil {
		if strings.HasPrefix(m[1], "/") {
			return m[1]
		}
		return "" // the written data is not a path, even if it looks like one
	}
	paths := quoted.FindAllStringSubmatch(args, -1)
	switch {
	case len(paths) == 0:
		return ""
	case call == "symlinkat", call == "symlink":
		return paths[len(paths)-1][1]
	}
	return paths[0][1]
}

// strace runs the program under strace with these further options and returns the trace. err is
// strace's exit status, which is the program's.
func (s *scene) strace(l *lab.Lab, options ...string) (trace string, err error) {
	const file = "/run/lab/trace"
	l.WriteFile(file, "")
	argv := slices.Concat([]string{"-f", "-y", "-qqq", "-o", file}, options, []string{s.program}, s.Argv)
	cmd := exec.Command("strace", argv...)
	cmd.Dir, cmd.Env = "/", s.environ()
	out, err := cmd.CombinedOutput()
	s.log = string(out)
	return l.ReadFile(file), err
}

// TestSteps parses a trace of strace 6.1, with a call that another thread interrupts, and a query
// whose random ID starts with the byte of a slash, which was once mistaken for a path.
func TestSteps(t *testing.T) {
	const trace = `17 openat(AT_FDCWD</>, "/etc/a", O_RDONLY|O_CLOEXEC) = 3</etc/a>
17 openat(AT_FDCWD</>, "/etc/.a.tmp", O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, 0600) = 5</etc/.a.tmp>
18 write(7<pipe:[1]>, "x", 1) = 1
18 write(8<UDP:[127.0.0.1:4711->127.0.0.1:53]>, "/\\355\\0\\0\\0\\1", 6) = 6
17 write(5</etc/.a.tmp>, "hi\n", 3 <unfinished ...>
18 +++ exited with 0 +++
17 <... write resumed>) = 3
17 fsync(5</etc>) = 0
17 renameat(AT_FDCWD</>, "/etc/.a.tmp", AT_FDCWD</>, "/etc/a") = 0
17 fsync(5</etc>) = 0
17 symlinkat("../x", AT_FDCWD</>, "/etc/l") = 0
`
	want := []step{
		{"openat", "/etc/.a.tmp", 1},
		{"write", "/etc/.a.tmp", 1},
		{"fsync", "/etc", 1},
		{"renameat", "/etc/.a.tmp", 1},
		{"fsync", "/etc", 2},
		{"symlinkat", "/etc/l", 1},
	}
	if got := steps(trace); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}
