package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// load is how dnsperf asks.
type load struct {
	file    string
	port    int
	clients int
	rate    int     // queries a second; 0: as many as are answered
	seconds float64 // 0: until each of the file's was asked once
	limit   float64 // seconds, where seconds is 0
	tcp     bool
	gently  bool // few at a time, so that none is lost
}

// The outstanding queries of a client that asks as fast as it is answered keep both cores at work, and fit a socket's buffer (some
// 270 small packets, of 208 KiB, the default). One with a rate goes on asking when answers do not come, as clients do, but not
// without end: what it could not ask while it had no CPU it asks at once.
const (
	outstanding       = 200
	outstandingAtRate = 500
	outstandingGently = 20
	patience          = 2 // seconds until a query counts as lost
)

// args are dnsperf's.
func (l load) args() []string {
	window := outstanding
	switch {
	case l.gently:
		window = outstandingGently
	case l.rate > 0:
		window = outstandingAtRate
	}
	args := []string{
		"-s", "127.0.0.1", "-p", strconv.Itoa(l.port), "-d", l.file, "-c", strconv.Itoa(l.clients), "-T", strconv.Itoa(cores),
		"-q", strconv.Itoa(window), "-t", strconv.Itoa(patience),
	}
	if l.seconds == 0 {
		args = append(args, "-n", "1", "-l", fmt.Sprint(l.limit))
	} else {
		args = append(args, "-l", fmt.Sprint(l.seconds))
	}
	if l.rate > 0 {
		args = append(args, "-Q", strconv.Itoa(l.rate), "-v") // a line a query, with its latency
	}
	if l.tcp {
		args = append(args, "-m", "tcp")
	}
	return args
}

// outcome is what dnsperf saw.
type outcome struct {
	sent, completed, lost int64
	codes                 map[string]int64 // answers by RCODE
	seconds               float64
	latencies             []float64 // seconds, sorted; none without -v
}

// parseDnsperf reads what dnsperf 2.10 prints.
func parseDnsperf(text string) (outcome, error) {
	o := outcome{codes: map[string]int64{}}
	found := 0
	for line := range strings.Lines(text) {
		if answer, ok := strings.CutPrefix(line, "> "); ok { // "> NOERROR h0000.example.com A 0.003543"; "> T" has none: it timed out
			if fields := strings.Fields(answer); len(fields) == 4 {
				if seconds, err := strconv.ParseFloat(fields[3], 64); err == nil {
					o.latencies = append(o.latencies, seconds)
				}
			}
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if !ok || len(fields) == 0 {
			continue
		}
		var err error
		switch strings.TrimSpace(key) {
		case "Queries sent":
			o.sent, err = strconv.ParseInt(fields[0], 10, 64)
		case "Queries completed":
			o.completed, err = strconv.ParseInt(fields[0], 10, 64)
		case "Queries lost":
			o.lost, err = strconv.ParseInt(fields[0], 10, 64)
		case "Run time (s)":
			o.seconds, err = strconv.ParseFloat(fields[0], 64)
		case "Response codes":
			err = o.addCodes(value)
		default:
			continue
		}
		if err != nil {
			return o, fmt.Errorf("parsing dnsperf's %q: %w", strings.TrimSpace(line), err)
		}
		found++
	}
	if found < 4 { // the codes are not there when nothing was answered
		return o, fmt.Errorf("dnsperf ended without its statistics: %s", lastLine(text))
	}
	slices.Sort(o.latencies)
	return o, nil
}

// addCodes reads "NOERROR 160 (80.00%), NXDOMAIN 40 (20.00%)".
func (o outcome) addCodes(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		fields := strings.Fields(part)
		if len(fields) < 2 {
			return fmt.Errorf("no count in %q", part)
		}
		n, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return err
		}
		o.codes[fields[0]] += n
	}
	return nil
}

// answered is how many got what they asked for, be it that there is no such name.
func (o outcome) answered() int64 { return o.codes["NOERROR"] + o.codes["NXDOMAIN"] }

// quantile is a latency in microseconds; 0: none was measured.
func (o outcome) quantile(share float64) float64 {
	if len(o.latencies) == 0 {
		return 0
	}
	return o.latencies[int(share*float64(len(o.latencies)-1))] * 1e6
}
