package nm

import (
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// patience is how long a test waits for an expected event.
const patience = 30 * time.Second

// newBus prepares a bus that does not run yet, and sets it as the system bus in the environment.
func newBus(t *testing.T) *lab.PrivateBus {
	t.Helper()
	b := lab.NewPrivateBus(t)
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", b.Address())
	return b
}

// startBus starts a bus and stops it at the end of the test.
func startBus(t *testing.T) *lab.PrivateBus {
	t.Helper()
	b := newBus(t)
	b.Start()
	return b
}

// startTestService starts a service in the test's process and stops it at the end of the test.
func startTestService(t *testing.T, h host) *service {
	t.Helper()
	s, err := startService(h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}
