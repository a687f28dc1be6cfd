package exchange

import (
	"strings"
	"testing"
	"time"
)

// TestSizes simulates series of responses: "1100-" means that a response of that size is lost,
// "1100" that it arrives, and "15m" that time passes. Losses are a pause apart, except "1100=",
// which is lost together with the previous one. At the end, two queries ask for 4096 bytes.
func TestSizes(t *testing.T) {
	const pause = 5 * time.Second
	for _, row := range []struct {
		name, events string
		first, then  uint16
		usable       uint16
	}{
		{"no events", "", 4096, 4096, 0},
		{"two losses may be lost packets", "1100- 1100-", 4096, 4096, 0},
		{"three losses", "1100- 1100- 1100-", 512, 512, 512},
		{"losses of one outage count once", "1100- 1100= 1100= 1100=", 4096, 4096, 0},
		{"small responses are not lost because of their size", "512- 512- 512-", 4096, 4096, 0},
		{"large response between the losses", "1100- 1100- 1100 1100-", 4096, 4096, 0},
		{"small responses between the losses", "1100- 900 1100- 900 1100-", 512, 512, 512},
		{"lost fragments, 1232 octets arrive", "1500- 1400- 3000-", 1232, 1232, 1232},
		{"lost fragments, 1232 octets are lost", "1500- 1400- 3000- 900-", 512, 512, 512},
		{"remembered for 15 minutes", "1100- 1100- 1100- 14m59s", 512, 512, 512},
		{"one query at a time requests more after 15 minutes", "1100- 1100- 1100- 15m", 4096, 512, 512},
		{"the larger response is lost", "1100- 1100- 1100- 15m 1100-", 512, 512, 512},
		{"the larger response arrives", "1100- 1100- 1100- 15m 1100", 4096, 4096, 0},
		{"server sends more than the limit", "1100- 1100- 1100- 1200", 4096, 4096, 0},
		{"outage resets the limit", "1100- 1100- 1100- down", 4096, 4096, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			h := health{state: Up}
			for _, event := range strings.Fields(row.events) {
				if passed, err := time.ParseDuration(event); err == nil {
					now = now.Add(passed - pause)
					continue
				}
				octets := 0
				for _, digit := range strings.TrimRight(event, "-=") {
					octets = 10*octets + int(digit-'0')
				}
				switch {
				case event == "down":
					for range failuresToDown {
						h.failed("connection refused", false, now)
					}
				case strings.HasSuffix(event, "="):
					h.sizes.lose(octets, pause, now.Add(-1))
				case strings.HasSuffix(event, "-"):
					h.sizes.lose(octets, pause, now)
					now = now.Add(pause)
				default:
					h.sizes.arrived(octets)
				}
			}
			if usable := h.sizes.usable(); usable != row.usable {
				t.Errorf("got a usable size of %d octets, want %d", usable, row.usable)
			}
			if small := h.sizes.ask(512, now); small != 512 {
				t.Errorf("got a request for %d octets, want 512", small)
			}
			if first, then := h.sizes.ask(4096, now), h.sizes.ask(4096, now); first != row.first || then != row.then {
				t.Errorf("got requests for %d octets, then %d, want %d and %d", first, then, row.first, row.then)
			}
		})
	}
}
