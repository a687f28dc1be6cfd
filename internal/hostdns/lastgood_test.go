package hostdns

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/upstream"
)

// TestDetailIsStable: where the upstreams came from is told alike by every run that finds them where the one before left
// them. The record of a last-good list told of itself: "last-good NetworkManager eth0", then "last-good last-good …".
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
					t.Errorf("from %q, want %q, in the log %s", from, test.want, w.log.String())
				}
			}
			if diff := cmp.Diff(lines[1], lines[2]); diff != "" {
				t.Errorf("two runs of the same state: %s", diff)
			}
		})
	}
}
