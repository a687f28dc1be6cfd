package main

import (
	"errors"
	"math"
	"strconv"
	"time"
)

// parseDuration parses a Go duration, such as 1m30s, or a number of seconds, as in sleep(1).
func parseDuration(text string) (time.Duration, bool) {
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d, err := time.ParseDuration(text)
		return d, err == nil
	}
	nanoseconds := seconds * float64(time.Second)
	if math.IsNaN(nanoseconds) || math.Abs(nanoseconds) >= math.MaxInt64 {
		return 0, false
	}
	return time.Duration(nanoseconds), true
}

// patience is the value of a timeout flag; 0 means no timeout.
type patience time.Duration

func (p *patience) String() string { return time.Duration(*p).String() }
func (p *patience) Type() string   { return "duration" }

// Set parses a duration or a number of seconds.
func (p *patience) Set(text string) error {
	d, ok := parseDuration(text)
	if !ok || d < 0 {
		return errors.New("expected seconds or a duration, such as 30 or 1m30s; 0 waits forever")
	}
	*p = patience(d)
	return nil
}
