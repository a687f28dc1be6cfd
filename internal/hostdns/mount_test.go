package hostdns

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// isolated runs do on a thread with mounts of its own; the thread, and with it the mounts, ends with the call.
func isolated(t *testing.T, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		lab.Skip(t, "mounts need root")
	}
	done := make(chan error)
	go func() {
		// Not unlocked: a thread in other namespaces must not run other goroutines.
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

// TestBlockedResolvConf: C080. The original must not be left saved when nothing displaced it.
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
		t.Error("the original is saved, and was not displaced")
	}
	// When it is free again the next run goes through with it.
	if r := w.apply(); r.ResolvConf != Written {
		t.Errorf("then: %s", r.ResolvConf)
	}
}

// TestBindMountedResolvConf is written in place, undone in place, and restored in place.
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
