package hostdns

import (
	"fmt"
	"sync/atomic"
)

// Progress records what a run is doing, for a watchdog that must end it: a system call on a hung
// file system (NFS without its server, FUSE) ignores the context. The zero Progress is ready to
// use. A nil one discards everything. It is safe for concurrent use.
type Progress struct {
	doing atomic.Pointer[string]
}

// String returns what the run is doing, such as "reading /etc/resolv.conf", or "starting" before
// its first action.
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
