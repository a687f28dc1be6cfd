package exchange

import (
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// next returns the time of the next connection attempt.
func (u *Upgrade) next() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.nextDial
}

// TestUpgradeRests: a server without DNS over TLS is not tried again for a while.
func TestUpgradeRests(t *testing.T) {
	mute := dnstest.NewTLSServer(t, world)
	mute.SetFaults(dnstest.Faults{Drop: true})
	hangingUp := dnstest.NewTLSServer(t, world)
	hangingUp.SetFaults(dnstest.Faults{CloseTCP: true})
	closed := dnstest.NewTLSServer(t, world)
	closed.Down()
	for name, s := range map[string]*dnstest.Server{
		"closed port": closed, "no TLS": dnstest.NewServer(t, world), "no response": mute, "closes the connection": hangingUp,
	} {
		t.Run(name, func(t *testing.T) {
			log := new(lab.Text)
			d := newTestDialer(t, mute, log)
			d.Timeout = 500 * time.Millisecond
			u := d.Opportunistic(nameserver.Server{Addr: s.Addr()}, s.Addr())
			t.Cleanup(u.Close)
			begun := time.Now()
			u.Prepare()
			await(t, "it is found out", func() bool { return strings.Contains(log.String(), "upstream is queried unencrypted") })
			until := u.next()
			if until.Before(begun.Add(restAfterFailure)) {
				t.Errorf("the next attempt is %v after the first one", until.Sub(begun))
			}
			for range 20 {
				u.Prepare()
			}
			if u.next() != until {
				t.Error("the server was tried again")
			}
		})
	}
}
