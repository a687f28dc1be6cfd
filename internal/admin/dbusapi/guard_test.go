package dbusapi

import (
	"strings"
	"testing"
)

// TestPanickingCall: a call that hits a fault of the program gets an error, is counted and told; the connection and the names
// stay.
func TestPanickingCall(t *testing.T) {
	w := start(t)
	w.mu.Lock()
	w.onSet = func() error { panic("out of cheese") }
	w.mu.Unlock()
	dnsmasq := dnsmasqOf(w.dial())
	set := func() error { return dnsmasq.Call("SetDomainServers", 0, []string{"10.0.0.1"}).Err }
	if err := set(); err == nil || err.Error() != "internal error" {
		t.Errorf("the caller is told %v", err)
	}
	w.mu.Lock()
	w.onSet = nil
	w.mu.Unlock()
	if err := set(); err != nil {
		t.Errorf("the next call: %v", err)
	}
	log := w.log.String()
	if strings.Count(log, "condition=task-panic") != 1 || !strings.Contains(log, "guard_test.go") || strings.Count(log, "D-Bus name is ours") != 2 {
		t.Errorf("the log is\n%s", log)
	}
	if n := w.service.config.Panics.Count(); n != 1 {
		t.Errorf("%d panics are counted", n)
	}
}
