package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// load is what the clients ask of a server.
type load struct {
	file      string   // of queries
	addresses []string // of the server; each has its share of the clients
	port      int
	clients   int
	rate      int     // queries a second; 0: as many as are answered
	seconds   float64 // 0: until each of the file's was asked once
	limit     float64 // seconds, where seconds is 0
	tcp       bool
	short     bool // over TCP, each on a connection of its own
	gently    bool // few at a time, so that none is lost
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

// commands are the programs that share the load, and their arguments.
func (l load) commands() (of program, args [][]string) {
	if l.short {
		return ofTree("dial"), [][]string{l.dialArgs()}
	}
	for _, address := range l.addresses {
		args = append(args, l.dnsperfArgs(address))
	}
	return dnsperf, args
}

// dnsperf asks over UDP, and over TCP connections that it keeps.
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
		"-s", address, "-p", strconv.Itoa(l.port), "-d", l.file, "-c", strconv.Itoa(l.clients / shares),
		"-T", strconv.Itoa(max(1, cores/shares)), "-q", strconv.Itoa(window / shares), "-t", strconv.Itoa(patience),
	}
	if l.seconds == 0 {
		args = append(args, "-n", "1", "-l", fmt.Sprint(l.limit))
	} else {
		args = append(args, "-l", fmt.Sprint(l.seconds))
	}
	if l.rate > 0 {
		args = append(args, "-Q", strconv.Itoa(l.rate/shares), "-v") // a line a query, with its latency
	}
	if l.tcp {
		args = append(args, "-m", "tcp")
	}
	return args
}

// connectionsAtRate is what outstandingAtRate is for connections. The peers are configured to accept
// as many at a time.
const connectionsAtRate = 100

func (l load) dialArgs() []string {
	connections := l.clients
	if l.rate > 0 {
		connections = connectionsAtRate
	}
	return []string{l.file, strconv.Itoa(l.port), strconv.Itoa(connections), strconv.Itoa(l.rate), fmt.Sprint(l.seconds)}
}

// outcome is what clients saw.
type outcome struct {
	sent, completed, lost int64
	codes                 map[string]int64 // answers by RCODE
	seconds               float64
	latencies             []float64 // seconds, sorted; none without -v
}

// parseDnsperf reads what dnsperf 2.10 prints, and dial after its example.
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

// add counts what another client saw at the same time.
func (o *outcome) add(other outcome) {
	o.sent, o.completed, o.lost = o.sent+other.sent, o.completed+other.completed, o.lost+other.lost
	for code, n := range other.codes {
		o.codes[code] += n
	}
	o.seconds = max(o.seconds, other.seconds)
	o.latencies = append(o.latencies, other.latencies...)
	slices.Sort(o.latencies)
}

// addLost adds the latencies of lost queries: their clients waited until they lost patience. Without
// them a server could improve its latencies by dropping queries.
func (o *outcome) addLost() {
	for range o.sent - o.completed {
		o.latencies = append(o.latencies, patience)
	}
	slices.Sort(o.latencies)
}

// quantile is a latency in microseconds. It is 0 when there are too few latencies for one to lie
// above it.
func (o outcome) quantile(share float64) float64 {
	n := float64(len(o.latencies))
	if n == 0 || share > 0.99 && n*(1-share) < 1 {
		return 0
	}
	return o.latencies[int(share*(n-1))] * 1e6
}

// worst is the longest latency in microseconds; 0: none was measured.
func (o outcome) worst() float64 {
	if len(o.latencies) == 0 {
		return 0
	}
	return o.latencies[len(o.latencies)-1] * 1e6
}
