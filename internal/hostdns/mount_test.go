package hostdns

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// isolated runs do on a thread with its own mounts. The thread ends with the call, and its mounts
// with it.
func isolated(t *testing.T, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		lab.Skip(t, "mounts need root")
	}
	done := make(chan error)
	go func() {
		// No UnlockOSThread: a thread in other namespaces must not run other goroutines.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			do()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatalf("making a mount namespace: %v", err)
	}
}

// bind mounts a file on itself, as container runtimes do with /etc/resolv.conf.
func (w *tree) bind(path string, flags uintptr) {
	if err := unix.Mount(w.at(path), w.at(path), "", unix.MS_BIND, ""); err != nil {
		w.t.Errorf("mounting: %v", err)
	}
	if flags != 0 {
		if err := unix.Mount("", w.at(path), "", unix.MS_BIND|unix.MS_REMOUNT|flags, ""); err != nil {
			w.t.Errorf("remounting: %v", err)
		}
	}
}

// TestBlockedResolvConf: the saved original must not remain if it was not replaced.
func TestBlockedResolvConf(t *testing.T) {
	w := newTree(t, map[string]string{etcResolvConf: generated})
	isolated(t, func() {
		w.bind(etcResolvConf, unix.MS_RDONLY)
		_, result, err := w.runner().Apply(t.Context(), nm.Event{})
		if err == nil || result.ResolvConf != Blocked || w.written(result) != varFacts+" "+varRecord+" "+etcUpstreams+" "+etcNode {
			t.Errorf("%s, wrote %s: %v", result.ResolvConf, w.written(result), err)
		}
	})
	if got := w.read(etcResolvConf); got != generated {
		t.Errorf("resolv.conf:\n%s", got)
	}
	if _, err := os.Lstat(w.at(varOriginal)); err == nil {
		t.Error("the original was saved but not replaced")
	}
	// Once the file is writable again, the next run succeeds.
	if r := w.apply(); r.ResolvConf != Written {
		t.Errorf("then: %s", r.ResolvConf)
	}
}

// TestBindMountedResolvConf: a bind-mounted file is written, undone and restored in place.
func TestBindMountedResolvConf(t *testing.T) {
	w := newTree(t, map[string]string{etcResolvConf: generated})
	isolated(t, func() {
		w.bind(etcResolvConf, 0)
		runner := w.runner()
		_, undo, err := runner.Applier.Apply(t.Context(), NewPlan(runner.Looker.Look(t.Context(), nm.Event{})))
		if got := w.read(etcResolvConf); err != nil || got != oursText {
			t.Errorf("error %v, resolv.conf:\n%s", err, got)
		}
		if err := undo(); err != nil || w.read(etcResolvConf) != generated {
			t.Errorf("undo: error %v, resolv.conf:\n%s", err, w.read(etcResolvConf))
		}
		w.apply()
		if r := w.restore(false); r.ResolvConf != Restored || w.read(etcResolvConf) != generated {
			t.Errorf("restore: %s, resolv.conf:\n%s", r.ResolvConf, w.read(etcResolvConf))
		}
	})
}

// TestMountedFileIsAdmins: NetworkManager cannot write a bind-mounted resolv.conf, so the search
// list is that of the file. NetworkManager's list replaced it while node-dns answered.
func TestMountedFileIsAdmins(t *testing.T) {
	const admins = "search admin.example\nnameserver 10.0.0.9\n"
	w := newTree(t, map[string]string{etcResolvConf: admins, "/run/NetworkManager/resolv.conf": generated})
	manager := host(withNetworkManager(dnsConfig("eth0", sys, "example.com")), withMode("default", "symlink")).NetworkManager
	w.snapshot = manager
	isolated(t, func() {
		w.bind(etcResolvConf, 0)
		w.apply()
		if got := w.read(etcResolvConf); !strings.Contains(got, "admin.example\n") || strings.Contains(got, " example.com") {
			t.Errorf("resolv.conf:\n%s", got)
		}
		if r := w.restore(true); r.ResolvConf != Restored || w.read(etcResolvConf) != admins {
			t.Errorf("restore: %s, resolv.conf:\n%s", r.ResolvConf, w.read(etcResolvConf))
		}
	})
}
