package hostdns

import (
	"errors"
	"testing"

	"github.com/node-dns/node-dns/internal/upstream"
)

// TestNoCaptureWithoutTheKernel: a resolv.conf that is not ours named the node's own address,
// netlink failed, and that address became the only upstream.
func TestNoCaptureWithoutTheKernel(t *testing.T) {
	s := State{Paths: NewPaths(""), HasDnsmasqDir: true, NetErr: errors.New("no descriptor left")}
	s.ResolvConf = File{Exists: true, Mode: 0o644, Data: []byte("nameserver 10.0.0.5\n")}
	s.Upstreams = File{Exists: true, Mode: 0o644, Data: []byte("server=192.0.2.53\n")}
	p := NewPlan(s)
	if len(p.Capture) > 0 {
		t.Errorf("got the capture steps %v", p.Capture)
	}
	s.NetErr = nil
	if p = NewPlan(s); len(p.Capture) == 0 || p.Selection.Origin != upstream.ResolvConf {
		t.Errorf("with the kernel's addresses it captures from %q: %v", p.Selection.Origin, p.Capture)
	}
}
