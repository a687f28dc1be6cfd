package result

import (
	"reflect"
	"testing"
	"time"
)

func outageReport() OutageReport {
	return OutageReport{
		Schema: Schema, Taken: time.Date(2026, 11, 27, 21, 0, 0, 0, time.UTC), Revision: "abc", PerSecond: 2000, Load: "0.10 0.20 0.30",
		Machine: Machine{CPU: "a CPU", Cores: 2, Kernel: "6.1.0"},
		Peers:   []Peer{{Ours, "abc"}, {"other", "1.2"}},
		Events:  []Event{{"start", "it starts"}, {"SIGKILL", "it is killed"}},
		Runs: []Outage{
			{Event: "start", Proxy: "iptables", Peer: Ours, Round: 1, Sent: 10, Lost: 0, GapMS: 5.4, LateMS: 1},
			{Event: "start", Proxy: "iptables", Peer: Ours, Round: 2, Sent: 10, Lost: 3, GapMS: 2, LateMS: 1.6},
			{Event: "start", Proxy: "nftables", Peer: Ours, Round: 1, Sent: 10, Lost: 1, GapMS: 7.3, LateMS: 0},
			{Event: "SIGKILL", Proxy: "iptables", Peer: "other", Round: 1, Sent: 2500, Lost: 2000, GapMS: 1004.5, LateMS: 20},
		},
	}
}

func TestOutages(t *testing.T) {
	const want = `2026-11-27 21:00 UTC, abc
a CPU, 2 cores, Linux 6.1.0, load averages before: 0.10 0.20 0.30
node-dns: abc
other: 1.2
a pod sends 2000 queries a second, each from a new socket, once, and waits five seconds

start: it starts
SIGKILL: it is killed

queries lost, longest time without an answer, and maximum delay of the client against its schedule, in each round

event    server    kube-proxy  lost  gap ms  client late ms
start    node-dns  iptables    0 3   5 2     1 2
start    node-dns  nftables    1     7       0
SIGKILL  other     iptables    2000  1004    20
`
	if got := Outages(outageReport()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMedian(t *testing.T) {
	r := outageReport()
	for _, test := range []struct {
		event, peer string
		lost, gapMS float64
		ok          bool
	}{
		{"start", Ours, 1, 5.4, true},
		{"SIGKILL", "other", 2000, 1004.5, true},
		{"SIGKILL", Ours, 0, 0, false},
	} {
		if lost, gap, ok := r.Median(test.event, test.peer); lost != test.lost || gap != test.gapMS || ok != test.ok {
			t.Errorf("%s of %s: got %v and %v ms, %v, want %v and %v ms, %v", test.event, test.peer, lost, gap, ok, test.lost, test.gapMS, test.ok)
		}
	}
}

func TestSaveOutages(t *testing.T) {
	dir := t.TempDir()
	if err := SaveOutages(dir, outageReport()); err != nil {
		t.Fatal(err)
	}
	got, err := LoadOutages(dir + "/intercept.json")
	if err != nil || !reflect.DeepEqual(got, outageReport()) {
		t.Errorf("%+v\n%v", got, err)
	}
}
