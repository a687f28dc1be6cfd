package hostdns

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/upstream"
)

// TestDetailIsStable: the source of unchanged upstreams does not change from run to run. Each run
// added to the record of a last-good list: "last-good NetworkManager eth0", then "last-good
// last-good ...".
func TestDetailIsStable(t *testing.T) {
	record := func(origin upstream.Origin, detail, list string) string {
		return string(upstream.Record{Set: upstream.Set{Servers: servers(list)}, Origin: origin, Detail: detail}.Bytes())
	}
	tests := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"a record", map[string]string{varRecord: record(upstream.NetworkManager, "eth0", sys)}, "NetworkManager eth0"},
		{"a record that names an address which became ours", map[string]string{varRecord: record(upstream.NetworkManager, "eth0", nodeIP+" "+sys)}, "NetworkManager eth0"},
		{"a record of a last-good list", map[string]string{varRecord: record(upstream.LastGood, "NetworkManager eth0", nodeIP+" "+sys)}, "NetworkManager eth0"},
		{"the upstream file alone", map[string]string{etcUpstreams: "server=10.0.0.2\nserver=10.0.0.3\n"}, etcUpstreams},
		{"the node resolv.conf alone", map[string]string{etcNode: "nameserver 10.0.0.2\nnameserver 10.0.0.3\n"}, etcNode},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newTree(t, test.files)
			w.put(etcResolvConf, oursText)
			var lines []string
			for range 3 {
				w.log.Reset()
				w.apply()
				lines = append(lines, w.log.String())
				if want := "source=last-good upstreams="; !strings.Contains(w.log.String(), want) {
					t.Errorf("no %q in %s", want, w.log.String())
				}
				if from := Captured(w.look().Upstreams, w.look().Record).From; from != test.want || !strings.Contains(w.log.String(), from) {
					t.Errorf("got source %q, want %q, log %s", from, test.want, w.log.String())
				}
			}
			if diff := cmp.Diff(lines[1], lines[2]); diff != "" {
				t.Errorf("two runs of the same state: %s", diff)
			}
		})
	}
}

// TestEarlierAddress changes a node's addresses without NetworkManager. Each run records the
// address that it pointed resolv.conf at. A copy of it is not an upstream until DHCP assigns the
// address to a nameserver.
func TestEarlierAddress(t *testing.T) {
	s := host(withResolvConf(file(generated)))
	run := func(want string, from upstream.Origin, pointed string, options ...option) {
		t.Helper()
		for _, o := range options {
			o(&s)
		}
		checkLaws(t, s)
		p := NewPlan(s)
		s = after(s, p.Steps(true))
		record, err := upstream.ParseRecord(s.Record.Data)
		if err != nil {
			t.Fatal(err)
		}
		if got := serverList(p); got != want || p.Selection.Origin != from || fmt.Sprint(record.Pointed) != "["+pointed+"]" {
			t.Errorf("got %q from %s, pointed %v", got, p.Selection.Origin, record.Pointed)
		}
	}
	const copied = "# a backup\nnameserver " + nodeIP + "\n"
	run(sys, upstream.ResolvConf, nodeIP)
	run(sys, upstream.LastGood, "192.168.122.51 "+nodeIP, withNodeIP("192.168.122.51"))
	run(sys, upstream.LastGood, "192.168.122.51 "+nodeIP, withResolvConf(file(copied)))
	run(nodeIP, upstream.NetworkManager, "192.168.122.51", withNetworkManager(dnsConfig("eth0", nodeIP, "")), withResolvConf(file(copied)))
	run(nodeIP, upstream.LastGood, "192.168.122.51", func(s *State) { s.NetworkManager = nil }, withResolvConf(file(copied)))
	run(nodeIP, upstream.LastGood, "192.168.122.51", withConfigFault(errFault), withNodeIP("192.168.122.52"))
}
