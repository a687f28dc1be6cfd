package main_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestScript runs the script that NetworkManager runs, with another program in place of this one.
func TestScript(t *testing.T) {
	text, err := os.ReadFile("../../packaging/networkmanager/99-origin-dns")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, program, output string
		code                  int
	}{
		{"the program", "/bin/sh", "1 5000000 eth0 up\n", 3},
		{"removed", "/nonexistent", "", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			script := filepath.Join(t.TempDir(), "99-origin-dns")
			here := strings.ReplaceAll(string(text), "/usr/libexec/node-dns/origin-dns-dispatcher", row.program)
			if err := os.WriteFile(script, []byte(here), 0o600); err != nil {
				t.Fatal(err)
			}
			// Linux keeps the timer slack across execve(2).
			run := exec.Command("sh", script, "-c", `read slack </proc/self/timerslack_ns; echo "$GOMAXPROCS $slack $*"; exit 3`, "program", "eth0", "up")
			out, err := run.CombinedOutput()
			if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if code := run.ProcessState.ExitCode(); string(out) != row.output || code != row.code {
				t.Errorf("printed %q, exit code %d; want %q, %d", out, code, row.output, row.code)
			}
		})
	}
}
