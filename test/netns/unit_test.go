package netns

import (
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// pathUnit imitates a systemd path unit that runs `origin-dns-dispatcher apply` when the daemon
// changes its request file (PathChanged=), and once more if the file changes during the run.
type pathUnit struct {
	output lab.Text // requests of the daemon and their results
}

const requestFile = "/run/node-dns/apply"

func (u *pathUnit) start(n *node) {
	stop, done := make(chan struct{}), make(chan struct{})
	n.t.Cleanup(func() {
		close(stop)
		<-done
		if n.t.Failed() {
			n.t.Logf("---- path unit\n%s", u.output.String())
		}
	})
	go func() {
		defer close(done)
		var last string
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
			request, err := os.ReadFile(requestFile)
			if err != nil || string(request) == last || len(request) == 0 {
				continue
			}
			last = string(request)
			u.run(n.program, last)
		}
	}()
}

func (u *pathUnit) run(program, request string) {
	cmd := exec.Command(program, "apply")
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + lab.Path, "INVOCATION_ID=00000000000000000000000000000000"}
	out, err := cmd.CombinedOutput()
	fmt.Fprintf(&u.output, "%s%s", request, out)
	if err != nil {
		fmt.Fprintln(&u.output, err)
	}
}
