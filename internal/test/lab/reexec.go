package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

const (
	stageEnv    = "NODEDNS_LAB"          // set in the process inside the machine
	absentEnv   = "NODEDNS_LAB_ABSENT"   // reason if there is no machine
	binariesEnv = "NODEDNS_LAB_BINARIES" // directory of the programs of Build
)

const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// unavailable returns the reason why no machine can be made, or "".
func unavailable() string {
	if fuzzing() {
		// The fuzzing engine uses file descriptors that do not reach into the machine.
		return "fuzzing (-test.fuzz)"
	}
	if os.Getenv(lanesEnv) == "skip" {
		return "NODEDNS_LANES=skip"
	}
	if os.Geteuid() != 0 {
		return "not root"
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return "no ip program (iproute2)"
	}
	probe := exec.Command("/proc/self/exe", "-test.list=^$")
	probe.Env = append(os.Environ(), stageEnv+"=probe")
	probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	if out, err := probe.CombinedOutput(); err != nil {
		return fmt.Sprintf("making namespaces: %v %s", err, out)
	}
	return ""
}

func fuzzing() bool { return flagValue("fuzz") != "" }

// runOutside builds the programs, runs the tests in machines, and returns their exit status.
func runOutside(c config) int {
	dir, err := os.MkdirTemp("", "node-dns-lab-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := c.build(dir); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		return 1
	}
	for _, f := range c.before {
		if err := f(); err != nil {
			fmt.Fprintln(os.Stderr, "lab:", err)
		}
	}
	if names := c.apart(); names != nil {
		return c.runApart(dir, names)
	}
	return startInside(dir, os.Stdout, os.Args[1:])
}

// startInside runs the test binary again in a new machine and returns its exit status.
func startInside(dir string, out io.Writer, args []string) int {
	// Pdeathsig is sent when the thread that started the child ends, not the process (prctl(2),
	// PR_SET_PDEATHSIG).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	inside := exec.Command("/proc/self/exe", args...)
	inside.Args[0] = os.Args[0]
	inside.Stdout, inside.Stderr = out, out
	if out == os.Stdout {
		inside.Stderr = os.Stderr
	}
	inside.Env = append(os.Environ(), stageEnv+"=inside", binariesEnv+"="+dir)
	inside.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	err := inside.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	default:
		fmt.Fprintln(out, "lab: the tests ended by", err)
		return 1
	}
}

// runInside turns this process into the machine and runs the tests in it.
func runInside(m *testing.M) int {
	if err := makeMachine(); err != nil {
		fmt.Fprintln(os.Stderr, "lab: making the machine:", err)
		return 1
	}
	if os.Getenv(stageEnv) == "probe" {
		return 0
	}
	return m.Run()
}
