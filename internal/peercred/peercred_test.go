package peercred

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestOf: a process that connects to itself is itself. Other users and groups are tested where they matter, in package control.
func TestOf(t *testing.T) {
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
	peer, err := Of(conn.(*net.UnixConn))
	if err != nil || peer.PID != os.Getpid() || peer.UID != os.Geteuid() || !peer.IsIn(os.Getegid()) {
		t.Errorf("%+v, %v", peer, err)
	}
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range groups {
		if !peer.IsIn(group) {
			t.Errorf("%+v is not in %d", peer, group)
		}
	}
	if peer.IsIn(1 << 30) {
		t.Errorf("%+v is in every group", peer)
	}
	conn.Close()
	if peer, err := Of(conn.(*net.UnixConn)); err == nil {
		t.Errorf("of a closed connection: %+v", peer)
	}
}
