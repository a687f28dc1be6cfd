package main

import (
	"math"
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

// TestQuantile: a quantile without a latency above it cannot be distinguished from the maximum.
func TestQuantile(t *testing.T) {
	for _, test := range []struct {
		name                  string
		n                     int
		p50, p99, p999, worst float64 // for latencies of 1, 2, 3, ... µs
	}{
		{"none", 0, 0, 0, 0, 0},
		{"one", 1, 1, 1, 0, 1},
		{"too few for p99.9", 999, 500, 989, 0, 999},
		{"enough", 1001, 501, 991, 1000, 1001},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := outcome{codes: map[string]int64{}}
			for i := test.n; i > 0; i-- {
				o.add(outcome{latencies: []float64{float64(i) / 1e6}})
			}
			got := [4]float64{o.quantile(0.5), o.quantile(0.99), o.quantile(0.999), o.worst()}
			for i, want := range [4]float64{test.p50, test.p99, test.p999, test.worst} {
				if math.Abs(got[i]-want) > 1e-6 {
					t.Errorf("%v", got)
				}
			}
		})
	}
}

func TestAdd(t *testing.T) {
	o := outcome{codes: map[string]int64{}}
	o.add(outcome{sent: 10, completed: 9, lost: 1, codes: map[string]int64{"NOERROR": 8, "NXDOMAIN": 1}, seconds: 1, latencies: []float64{1, 4}})
	o.add(outcome{sent: 5, completed: 5, codes: map[string]int64{"NOERROR": 5}, seconds: 0.9, latencies: []float64{2}})
	if o.sent != 15 || o.completed != 14 || o.lost != 1 || o.answered() != 14 || o.codes["NOERROR"] != 13 || o.seconds != 1 || !slices.Equal(o.latencies, []float64{1, 2, 4}) {
		t.Errorf("%+v", o)
	}
	o.latencies = []float64{0.1, 3}
	if o.addLost(); !slices.Equal(o.latencies, []float64{0.1, patience, 3}) {
		t.Errorf("with the lost query: %v", o.latencies)
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
		{"at four addresses", load{file: "f", addresses: loopback(4), port: 53, clients: 20, seconds: 1, rate: 10_000}, `
			dnsperf -s 127.0.0.1 -p 53 -d f -c 5 -T 1 -q 125 -t 2 -l 1 -Q 2500 -v
			dnsperf -s 127.0.0.2 -p 53 -d f -c 5 -T 1 -q 125 -t 2 -l 1 -Q 2500 -v
			dnsperf -s 127.0.0.3 -p 53 -d f -c 5 -T 1 -q 125 -t 2 -l 1 -Q 2500 -v
			dnsperf -s 127.0.0.4 -p 53 -d f -c 5 -T 1 -q 125 -t 2 -l 1 -Q 2500 -v`},
		{"a connection each", load{file: "f", port: 53, clients: 20, seconds: 1, short: true}, "dial f 53 20 0 1"},
		{"a connection each, at a rate", load{file: "f", port: 53, clients: 20, seconds: 0.2, short: true, rate: 2000}, "dial f 53 100 2000 0.2"},
		{"at full speed", load{file: "f", port: 53, clients: 20, seconds: 4}, "dnsperf -s 127.0.0.1 -p 53 -d f -c 20 -T 2 -q 200 -t 2 -l 4"},
		{"at a rate, over TCP", load{file: "f", port: 53, clients: 18, seconds: 1.5, rate: 10_000, tcp: true}, "dnsperf -s 127.0.0.1 -p 53 -d f -c 18 -T 2 -q 500 -t 2 -l 1.5 -Q 10000 -v -m tcp"},
		{"each query once, at low load", load{file: "f", port: 53, clients: 20, limit: 60, gently: true}, "dnsperf -s 127.0.0.1 -p 53 -d f -c 20 -T 2 -q 20 -t 2 -n 1 -l 60"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.load.addresses == nil {
				test.load.addresses = loopback(1)
			}
			of, all := test.load.commands()
			var got []string
			for _, args := range all {
				got = slices.Concat(got, []string{of.name}, args)
			}
			if !slices.Equal(got, strings.Fields(test.want)) {
				t.Errorf("%q", got)
			}
		})
	}
}
