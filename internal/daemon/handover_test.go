package daemon

import (
	"crypto/sha256"
	"log/slog"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/sys/supervise"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestLogHandover: a file of an earlier daemon that cannot be used is logged and is not fatal.
func TestLogHandover(t *testing.T) {
	t.Parallel()
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	log := new(lab.Text)
	start(t, map[string]string{}, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(log, nil))
		c.Inherited = []*os.File{file}
	})
	if !strings.Contains(log.String(), "name="+os.DevNull+" error=\"unusable\\nno service manager\" condition=handover-failed\n") {
		t.Errorf("the log:\n%s", log)
	}
}

// TestMostCacheDump: a hand-over takes at most an eighth of the memory limit for the dump and its
// copy.
func TestMostCacheDump(t *testing.T) {
	for limit, want := range map[int64]int{0: 16 << 20, 32 << 20: 2 << 20, 64 << 20: 4 << 20, limitOfGo(512<<20, math.MaxInt64): 16 << 20, 1 << 40: 16 << 20} {
		if got := mostCacheDump(limit); got != want {
			t.Errorf("with %d bytes: %d, want %d", limit, got, want)
		}
	}
}

// TestInheritTwoCaches: of two caches, which the service manager holds if it did not read the
// removal of the first one, the newer one is used. A second one that was too old replaced it.
func TestInheritTwoCaches(t *testing.T) {
	sealed := func(text string, age time.Duration) *os.File {
		fd, err := unix.MemfdCreate(text, unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		file := os.NewFile(uintptr(fd), cacheName)
		if _, err := file.Write(cache.Seal([]byte(text), [sha256.Size]byte{}, bootTime()-age)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	log := slog.New(slog.DiscardHandler)
	for _, ages := range [][]time.Duration{{0, time.Hour}, {time.Hour, 0}, {0, 30 * time.Second}, {30 * time.Second, 0}} {
		d := &Daemon{log: log, sockets: newSockets(supervise.Store{}, log)}
		var files []*os.File
		for _, age := range ages {
			files = append(files, sealed(age.String(), age))
		}
		if got := string(d.inherit(files).cache.Dump); got != "0s" {
			t.Errorf("of caches %v old: used %q", ages, got)
		}
	}
}
