package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// load describes the queries that clients send to a server.
type load struct {
	file      string   // query file
	addresses []string // of the server; the clients are divided among them
	port      int
	clients   int
	rate      int     // queries per second; 0: as fast as they are answered
	seconds   float64 // 0: until each query of the file was sent once
	limit     float64 // timeout in seconds if seconds is 0
	tcp       bool
	short     bool // over TCP, with one connection per query
	gently    bool // few at a time, so that none is lost
}

// The number of outstanding queries of a client without a rate keeps both cores busy and fits in a
// socket buffer (about 270 small packets in 208 KiB, the default). A client with a rate keeps
// sending when answers are missing, as real clients do, but only up to a limit. Queries that it
// could not send for lack of CPU time are sent at once.
const (
	outstanding       = 200
	outstandingAtRate = 500
	outstandingGently = 20
	patience          = 2 // seconds until a query counts as lost
)

// commands returns the program that generates the load, and the arguments of each process.
func (l load) commands() (of program, args [][]string) {
	if l.short {
		return ofTree("dial"), [][]string{l.dialArgs()}
	}
	for _, address := range l.addresses {
		args = append(args, l.dnsperfArgs(address))
	}
	return dnsperf, args
}

// dnsperf sends queries over UDP and over persistent TCP connections.
var dnsperf = debian("dnsperf")

func (l load) dnsperfArgs(address string) []string {
	window := outstanding
	switch {
	case l.gently:
		window = outstandingGently
	case l.rate > 0:
		window = outstandingAtRate
	}
	shares := len(l.addresses)
	args := []string{
		"-s", address, "-p", strconv.Itoa(l.port), "-d", l.file, "-c", strconv.Itoa(max(1, l.clients/shares)),
		"-T", strconv.Itoa(max(1, cores/shares)), "-q", strconv.Itoa(window / shares), "-t", strconv.Itoa(patience),
	}
	if l.seconds == 0 {
		args = append(args, "-n", "1", "-l", fmt.Sprint(l.limit))
	} else {
		args = append(args, "-l", fmt.Sprint(l.seconds))
	}
	if l.rate > 0 {
		args = append(args, "-Q", strconv.Itoa(l.rate/shares), "-v") // one line per query with its latency
	}
	if l.tcp {
		args = append(args, "-m", "tcp")
	}
	return args
}

// connectionsAtRate is outstandingAtRate for connections. The peers are configured to accept that
// many at a time.
const connectionsAtRate = 100

func (l load) dialArgs() []string {
	connections := l.clients
	if l.rate > 0 {
		connections = connectionsAtRate
	}
	return []string{l.file, strconv.Itoa(l.port), strconv.Itoa(connections), strconv.Itoa(l.rate), fmt.Sprint(l.seconds)}
}

// outcome is what the clients measured.
type outcome struct {
	sent, completed, lost int64
	codes                 map[string]int64 // number of answers by RCODE
	seconds               float64
	latencies             []float64 // seconds, sorted; empty without -v
}

// parseDnsperf parses the output of dnsperf 2.10, and of dial, which has the same format.
func parseDnsperf(text string) (outcome, error) {
	o := outcome{codes: map[string]int64{}}
	found := 0
	for line := range strings.Lines(text) {
		// Answers look like "> NOERROR h0000.example.com A 0.003543", timeouts like "> T".
		if answer, ok := strings.CutPrefix(line, "> "); ok {
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
	if found < 4 { // the codes are missing if nothing was answered
		return o, fmt.Errorf("dnsperf ended without its statistics: %s", lastLine(text))
	}
	slices.Sort(o.latencies)
	return o, nil
}

// addCodes parses "NOERROR 160 (80.00%), NXDOMAIN 40 (20.00%)".
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

// answered returns the number of successful answers, including NXDOMAIN.
func (o outcome) answered() int64 { return o.codes["NOERROR"] + o.codes["NXDOMAIN"] }

// add adds the outcome of another client that ran at the same time.
func (o *outcome) add(other outcome) {
	o.sent, o.completed, o.lost = o.sent+other.sent, o.completed+other.completed, o.lost+other.lost
	for code, n := range other.codes {
		o.codes[code] += n
	}
	o.seconds = max(o.seconds, other.seconds)
	o.latencies = append(o.latencies, other.latencies...)
	slices.Sort(o.latencies)
}

// addLost adds the timeout as the latency of each lost query. Otherwise a server could improve its
// latencies by dropping queries.
func (o *outcome) addLost() {
	for range o.sent - o.completed {
		o.latencies = append(o.latencies, patience)
	}
	slices.Sort(o.latencies)
}

// quantile returns a latency in microseconds. It returns 0 if there are too few latencies for one
// to be above it.
func (o outcome) quantile(share float64) float64 {
	n := float64(len(o.latencies))
	if n == 0 || share > 0.99 && n*(1-share) < 1 {
		return 0
	}
	return o.latencies[int(share*(n-1))] * 1e6
}

// worst returns the longest latency in microseconds, or 0 if none was measured.
func (o outcome) worst() float64 {
	if len(o.latencies) == 0 {
		return 0
	}
	return o.latencies[len(o.latencies)-1] * 1e6
}
