package supervise

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestStore: the next run of a program inherits what an earlier one stored, by name. Keeps detects
// a manager that keeps nothing.
func TestStore(t *testing.T) {
	if os.Getenv("NODEDNS_SUPERVISE_STORES") != "" {
		storeAndWait()
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for room, want := range map[int]string{
		10: "inherited \nkeeps true\ninherited kept\nkeeps true\n",
		1:  "inherited \nkeeps false\ninherited kept\nkeeps false\n",
		0:  "inherited \nkeeps false\ninherited \nkeeps false\n",
	} {
		m := lab.NewManager(t, room, []string{"NODEDNS_SUPERVISE_STORES=1"}, self, "-test.run=^TestStore$", "-test.timeout=1m")
		for range 2 {
			m.Start()
			if err := m.End(unix.SIGKILL); err == nil {
				t.Error("the program was not killed")
			}
		}
		if got := m.Output(); got != want {
			t.Errorf("with room for %d the program printed\n%s, want\n%s", room, got, want)
		}
		if held := m.Held(); len(held) != min(room, 1) {
			t.Errorf("with room for %d the manager kept %q", room, held)
		}
	}
}

// storeAndWait is the program. It stores the file "kept", removes the file "dropped", and prints
// its state.
func storeAndWait() {
	var names []string
	for _, file := range Inherit() {
		names = append(names, file.Name())
	}
	again := Inherit()
	store := OpenStore()
	fd, err := unix.MemfdCreate("kept", unix.MFD_CLOEXEC)
	err = errors.Join(err, store.Remove("kept"), store.Put("kept", fd), store.Put("kept", fd))
	if err == nil && store.Exists() {
		keeps, failed := store.Keeps()
		err = failed
		slices.Sort(names)
		os.Stdout.WriteString("inherited " + strings.Join(names, " ") + "\nkeeps " + map[bool]string{true: "true", false: "false"}[keeps] + "\n")
	}
	if err != nil || len(again) > 0 || os.Getenv("LISTEN_FDS") != "" {
		os.Stdout.WriteString(fmt.Sprintln("fails:", err, again))
	}
	_ = notifySystemd("READY=1")
	select {}
}

// TestNoStore: without a service manager nothing is stored. If the manager is gone, Put returns an
// error at once.
func TestNoStore(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if store := OpenStore(); store.Exists() || !errors.Is(store.Put("a", 0), errNoStore) {
		t.Error("a store exists")
	}
	gone := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: gone, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	socket.Close()
	t.Setenv("NOTIFY_SOCKET", gone)
	if _, err := OpenStore().Keeps(); err == nil {
		t.Error("a manager that is gone keeps files")
	}
}

// TestSilentManager: a manager that does not read causes a timeout.
func TestSilentManager(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	if _, err := OpenStore().Keeps(); err == nil || !strings.Contains(err.Error(), "no answer from the service manager within 1s") {
		t.Errorf("got %v", err)
	}
}
