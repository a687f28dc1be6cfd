package rawsock

import (
	"testing"
	"time"
)

// TestAlarm: the last Set counts, and Close ends a Wait.
func TestAlarm(t *testing.T) {
	a, err := NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	waits := make(chan bool, 1)
	wait := func() { waits <- a.Wait() }
	for _, step := range []struct {
		name string
		set  []time.Duration
	}{
		{"once", []time.Duration{1}},
		{"earlier than before", []time.Duration{time.Hour, time.Millisecond}},
		{"again after it was disabled", []time.Duration{time.Hour, 0, time.Millisecond}},
	} {
		go wait()
		for _, after := range step.set {
			a.Set(after)
		}
		if !<-waits {
			t.Errorf("%s: ended without an expiry", step.name)
		}
	}
	a.Set(time.Nanosecond)
	time.Sleep(10 * time.Millisecond) // an Alarm that has expired
	a.Set(time.Hour)                  // and is set again
	go wait()
	a.Set(0)
	select {
	case <-waits:
		t.Error("an Alarm that is disabled ended Wait")
	case <-time.After(20 * time.Millisecond):
	}
	a.Close()
	if <-waits {
		t.Error("a closed Alarm expired")
	}
	a.Set(1) // has no effect
}
