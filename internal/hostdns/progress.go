package hostdns

import (
	"fmt"
	"sync/atomic"
)

// Progress is what a run is doing, for whoever has to give up on one: a system call on a file system that does not answer
// (NFS without its server, FUSE) heeds no context. The zero Progress is ready, a nil one that of a run that nobody
// watches. It is safe for concurrent use.
type Progress struct {
	doing atomic.Pointer[string]
}

// String is what the run is doing now, such as "reading /etc/resolv.conf"; "starting" before it did anything.
func (p *Progress) String() string {
	if doing := p.doing.Load(); doing != nil {
		return *doing
	}
	return "starting"
}

func (p *Progress) is(format string, args ...any) {
	if p != nil {
		doing := fmt.Sprintf(format, args...)
		p.doing.Store(&doing)
	}
}
