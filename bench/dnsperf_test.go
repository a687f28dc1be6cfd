package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestParseDnsperf(t *testing.T) {
	for _, test := range []struct {
		file                           string
		sent, lost, answered, seconds1 int64 // seconds1: in thousandths
		p50, p99                       float64
	}{
		{"dnsperf-pods.txt", 200_000, 10, 199_983, 2000, 0, 0},
		{"dnsperf-latencies.txt", 5, 1, 4, 1000, 30, 50},
	} {
		t.Run(test.file, func(t *testing.T) {
			text, err := os.ReadFile("testdata/" + test.file)
			if err != nil {
				t.Fatal(err)
			}
			o, err := parseDnsperf(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if o.sent != test.sent || o.lost != test.lost || o.answered() != test.answered || int64(o.seconds*1000) != test.seconds1 {
				t.Errorf("%+v", o)
			}
			if got := [2]float64{o.quantile(0.5), o.quantile(0.99)}; got != [2]float64{test.p50, test.p99} {
				t.Errorf("latencies %v", got)
			}
		})
	}
}

func TestParseDnsperfFaults(t *testing.T) {
	text, err := os.ReadFile("testdata/dnsperf-pods.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, text, want string }{
		{"nothing", "", "dnsperf ended without its statistics: "},
		{"only why", "[Status] Sending\nError: unable to open /tmp/x\n", "dnsperf ended without its statistics: Error: unable to open /tmp/x"},
		{"no number", strings.Replace(string(text), "200000", "many", 1), `parsing dnsperf's "Queries sent:         many": strconv.ParseInt: parsing "many": invalid syntax`},
		{"no count", strings.Replace(string(text), "SERVFAIL 7 (0.00%)", "SERVFAIL", 1), `parsing dnsperf's "Response codes:       NOERROR 43990 (22.00%), SERVFAIL, NXDOMAIN 155993 (78.00%)": no count in " SERVFAIL"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := parseDnsperf(test.text); err == nil || err.Error() != test.want {
				t.Errorf("%v\nnot %s", err, test.want)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	for _, test := range []struct {
		name string
		load load
		want string
	}{
		{"as fast as it goes", load{file: "f", port: 53, clients: 20, seconds: 4}, "-s 127.0.0.1 -p 53 -d f -c 20 -T 2 -q 200 -t 2 -l 4"},
		{"at a rate, over TCP", load{file: "f", port: 53, clients: 18, seconds: 1.5, rate: 10_000, tcp: true}, "-s 127.0.0.1 -p 53 -d f -c 18 -T 2 -q 500 -t 2 -l 1.5 -Q 10000 -v -m tcp"},
		{"each once, gently", load{file: "f", port: 53, clients: 20, limit: 60, gently: true}, "-s 127.0.0.1 -p 53 -d f -c 20 -T 2 -q 20 -t 2 -n 1 -l 60"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.load.args(); !slices.Equal(got, strings.Fields(test.want)) {
				t.Errorf("%q", got)
			}
		})
	}
}
