package dbusapi

import (
	"strings"
	"testing"
)

// TestPanickingCall proves that a call that panics gets an error and is counted and logged, and
// that the connection and the names stay.
func TestPanickingCall(t *testing.T) {
	w := start(t)
	w.mu.Lock()
	w.onSet = func() error { panic("out of cheese") }
	w.mu.Unlock()
	dnsmasq := dnsmasqOf(w.dial())
	set := func() error { return dnsmasq.Call("SetDomainServers", 0, []string{"10.0.0.1"}).Err }
	if err := set(); err == nil || err.Error() != "internal error" {
		t.Errorf("the caller got %v", err)
	}
	w.mu.Lock()
	w.onSet = nil
	w.mu.Unlock()
	if err := set(); err != nil {
		t.Errorf("got %v for the next call", err)
	}
	log := w.log.String()
	if strings.Count(log, "condition=task-panic") != 1 || !strings.Contains(log, "guard_test.go") || strings.Count(log, "acquired D-Bus name") != 2 {
		t.Errorf("got log\n%s", log)
	}
	if n := w.service.config.Panics.Count(); n != 1 {
		t.Errorf("got %d panics", n)
	}
}
