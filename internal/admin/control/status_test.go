package control

import (
	"slices"
	"testing"
)

// TestUnready proves that each reason for not being ready is reported, and nothing else.
func TestUnready(t *testing.T) {
	const notListening, noUpstream = "not listening because this node has no address yet", "no upstream nameserver is known"
	for _, test := range []struct {
		name   string
		change func(*Status)
		want   []string
	}{
		{"all is well", func(*Status) {}, nil},
		{"a nameserver that is down", func(s *Status) { s.Routes[2].Servers[0].State = "down" }, nil},
		{"no metrics", func(s *Status) { s.Metrics = Metrics{"127.0.0.1:9453", "address already in use"} }, nil},
		{"no address", func(s *Status) { s.Listeners = nil }, []string{notListening}},
		{"no cluster domain", func(s *Status) { s.Listeners, s.Cluster.Domain = nil, "" }, []string{"not listening because the cluster domain is unknown"}},
		{"a port that is taken", func(s *Status) { s.Listeners[1].Error = "in use" }, []string{"not listening on 127.0.0.1:53: in use"}},
		{"a port that is taken where another program may have it", func(s *Status) { s.Listeners[1].Error, s.Listeners[1].Spare = "in use", true }, nil},
		{"only a spare listener", func(s *Status) { s.Listeners = []Listener{{Address: "127.0.0.1:53", Error: "in use", Spare: true}} }, []string{notListening}},
		{"another node-dns serves the node", func(s *Status) { s.Listeners, s.Routes, s.LeftTo = nil, nil, "node-dns 0.9.0 at 10.0.0.5:53" }, nil},
		{"no upstream", func(s *Status) { s.Routes = s.Routes[:2] }, []string{noUpstream}},
		{"both", func(s *Status) { s.Listeners, s.Routes = nil, nil }, []string{notListening, noUpstream}},
	} {
		s := well()
		test.change(&s)
		if got := s.Unready(); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestMetricsOpen(t *testing.T) {
	for address, want := range map[string]bool{
		"": false, "127.0.0.1:9453": false, "[::1]:9453": false, "[::ffff:127.0.0.1]:1": false, "0.0.0.0:9453": true, "10.0.0.5:9453": true, "[::]:9453": true,
	} {
		if got := (Metrics{Address: address}).IsOpen(); got != want {
			t.Errorf("%q: got %v", address, got)
		}
	}
}
