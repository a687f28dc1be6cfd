package vm

import (
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// Resume is Boot for a test that does not need a boot of its own. It continues from a machine that
// was booted once, for the first such test, and whose memory and disk are cached next to the image.
// That takes a few seconds.
//
// prepare changes the machine after its boot, before it is cached; key identifies what prepare
// does. It must not call lab.Cached.
//
// The machine has one card. The addresses of its network must be the same in all tests that share
// an image.
func (m *Machine) Resume(key string, prepare func()) {
	m.t.Helper()
	hardware := strings.ReplaceAll(strings.Join(m.argv(), " "), m.dir, "")
	booted, err := lab.Cached("vm booted "+m.base+" "+hardware+" "+key, func(dir string) error {
		m.Boot()
		m.Await("the guest to be on the network", "nmcli -t -f STATE general | grep -qx connected")
		prepare()
		m.Run("systemctl is-system-running --wait || true; sync")
		// With more than one emulated processor, QEMU 7.2 loses memory writes if it saves a running
		// guest.
		m.monitor("stop")
		m.monitor(`migrate "exec:cat >` + filepath.Join(dir, "memory") + `"`)
		if status := m.monitor("info migrate"); !strings.Contains(status, "completed") {
			return fmt.Errorf("saving the guest's memory: %s", status)
		}
		m.Cut()
		return os.Rename(m.path("disk"), filepath.Join(dir, "disk"))
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.l.Run("cp", "--sparse=always", filepath.Join(booted, "disk"), m.path("disk"))
	m.start("-incoming", "exec:cat "+filepath.Join(booted, "memory"))
	if !lab.Poll(awaitTimeout, func() bool { return !strings.Contains(m.monitor("info status"), "inmigrate") }) {
		m.t.Fatal("the emulator does not read the guest's memory")
	}
	m.connect() // before cont: without a host at the other end of its port, the agent reads an end of file
	m.monitor("cont")
	// This network is another one: its host has a hardware address that the guest does not know.
	m.Run(fmt.Sprintf("date -s @%d && ip neigh flush all", time.Now().Unix()))
}

// Push copies files of the host into a directory of the guest, over the network. from is an address
// of the namespace that the first card is connected to.
func (m *Machine) Push(from, dir string, files ...string) {
	m.t.Helper()
	var listener net.Listener
	var err error
	if inside := m.links[0].peer.Inside(func() { listener, err = net.Listen("tcp", net.JoinHostPort(from, "0")) }); inside != nil || err != nil {
		m.t.Fatalf("listening for the guest: %v, %v", inside, err)
	}
	defer listener.Close()
	go func() {
		for _, file := range files {
			if err := send(listener, file); err != nil {
				return // the guest reports a short file
			}
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			m.t.Fatal(err)
		}
		to := path.Join(dir, filepath.Base(file))
		m.Run(fmt.Sprintf("mkdir -p %s && cat </dev/tcp/%s/%s >%s && [ $(stat -c %%s %[4]s) = %d ]", dir, from, port, to, info.Size()))
	}
}

func send(listener net.Listener, file string) error {
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(conn, f)
	return err
}
