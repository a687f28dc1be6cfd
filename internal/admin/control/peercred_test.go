package control

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestPeerOf proves that a process that connects to itself gets its own credentials. access_test.go
// covers other users and groups.
func TestPeerOf(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p, err := peerOf(conn.(*net.UnixConn))
	if err != nil || p.PID != os.Getpid() || p.UID != os.Geteuid() || !p.isIn(os.Getegid()) {
		t.Errorf("got %+v, %v", p, err)
	}
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range groups {
		if !p.isIn(group) {
			t.Errorf("got %+v, which is not in group %d", p, group)
		}
	}
	if p.isIn(1 << 30) {
		t.Errorf("got %+v, which is in every group", p)
	}
	conn.Close()
	if p, err := peerOf(conn.(*net.UnixConn)); err == nil {
		t.Errorf("got %+v from a closed connection", p)
	}
}
