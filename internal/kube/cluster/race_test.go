package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestInOrder(t *testing.T) {
	const four1, four2, four3, six1, six2 = "10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1", "fd00::2"
	for _, row := range []struct {
		name  string
		addrs []string
		good  string
		bad   []string
		want  []string
	}{
		{"order of the nameserver", []string{four2, four1}, "", nil, []string{four2, four1}},
		{"alternating families", []string{six1, six2, four1, four2}, "", nil, []string{six1, four1, six2, four2}},
		{"first family of the answer", []string{four1, four2, six1}, "", nil, []string{four1, six1, four2}},
		{"address that answered last", []string{four1, four2, four3}, four3, nil, []string{four3, four1, four2}},
		{"address that did not answer", []string{four1, four2, four3}, "", []string{four1}, []string{four2, four3, four1}},
		{"last address no longer answers", []string{four1, four2}, four1, []string{four1}, []string{four2, four1}},
		{"no address answers", []string{four1, four2}, "", []string{four1, four2}, []string{four1, four2}},
		{"duplicate and IPv4-mapped address", []string{four1, "::ffff:" + four1, four2, four2}, "", nil, []string{four1, four2}},
		{"last address no longer belongs to the host", []string{four1}, four2, nil, []string{four1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var good netip.Addr
			if row.good != "" {
				good = netip.MustParseAddr(row.good)
			}
			bad := map[netip.Addr]struct{}{}
			for _, addr := range row.bad {
				bad[netip.MustParseAddr(addr)] = struct{}{}
			}
			var got []string
			for _, addr := range inOrder(addresses(row.addrs), good, bad) {
				got = append(got, addr.String())
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}

func addresses(texts []string) (addrs []netip.Addr) {
	for _, text := range texts {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	return addrs
}

// hosts maps the addresses of a host to their state: "up", "refused", "silent", or the time that a
// connection takes.
type hosts map[string]string

func (h hosts) dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	state := h[host]
	if state == "refused" {
		return nil, errors.New(host + ": connection refused")
	}
	wait := 24 * time.Hour
	if state == "up" {
		wait = time.Millisecond
	} else if state != "silent" {
		wait, _ = time.ParseDuration(state)
	}
	select {
	case <-time.After(wait):
		client, server := net.Pipe()
		server.Close()
		return client, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", host, ctx.Err())
	}
}

// TestRace: an API server with several addresses was never reached if the first one was silent.
// Each attempt spent all its time there.
func TestRace(t *testing.T) {
	for _, row := range []struct {
		name   string
		hosts  hosts
		addrs  []string
		within time.Duration
		winner string // "": none
		errs   []string
	}{
		{"one", hosts{"10.0.0.1": "up"}, []string{"10.0.0.1"}, 10 * time.Millisecond, "10.0.0.1", nil},
		{"the first two of three are silent", hosts{"10.0.0.1": "silent", "10.0.0.2": "silent", "10.0.0.3": "up"}, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, 600 * time.Millisecond, "10.0.0.3", nil},
		{"the first refuses", hosts{"10.0.0.1": "refused", "10.0.0.2": "up"}, []string{"10.0.0.1", "10.0.0.2"}, 10 * time.Millisecond, "10.0.0.2", nil},
		{"IPv6 is unreachable", hosts{"fd00::1": "silent", "fd00::2": "silent", "10.0.0.1": "up"}, []string{"fd00::1", "fd00::2", "10.0.0.1"}, 300 * time.Millisecond, "10.0.0.1", nil},
		{"slow first address", hosts{"10.0.0.1": "300ms", "10.0.0.2": "silent"}, []string{"10.0.0.1", "10.0.0.2"}, 350 * time.Millisecond, "10.0.0.1", nil},
		{"two addresses connect", hosts{"10.0.0.1": "260ms", "10.0.0.2": "20ms"}, []string{"10.0.0.1", "10.0.0.2"}, 300 * time.Millisecond, "10.0.0.1", nil},
		{"all refuse", hosts{"10.0.0.1": "refused", "10.0.0.2": "refused"}, []string{"10.0.0.1", "10.0.0.2"}, 10 * time.Millisecond, "", []string{"10.0.0.1: connection refused", "10.0.0.2: connection refused"}},
		{"all are silent", hosts{"10.0.0.1": "silent", "10.0.0.2": "silent"}, []string{"10.0.0.1", "10.0.0.2"}, 6 * time.Second, "", []string{"10.0.0.1", "deadline"}},
		{"no address", nil, nil, time.Millisecond, "", []string{"api.example", "no address"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			fakeTime(t, func(t *testing.T) {
				r := &racer{dial: row.hosts.dial, lookup: func(context.Context, string) ([]netip.Addr, error) { return addresses(row.addrs), nil }}
				began := time.Now()
				conn, err := r.Dial(t.Context(), "tcp", "api.example:6443")
				if took := time.Since(began); took > row.within {
					t.Errorf("connecting took %v", took)
				}
				switch {
				case row.winner == "" && err == nil, row.winner != "" && err != nil, row.winner != "" && r.last.String() != row.winner:
					t.Errorf("connected to %v: %v", r.last, err)
				case err == nil:
					conn.Close()
				}
				for _, text := range row.errs {
					if err == nil || !strings.Contains(err.Error(), text) {
						t.Errorf("the error does not contain %q: %v", text, err)
					}
				}
			})
		})
	}
}

// TestJudge: a server that accepts connections but does not answer is tried last until it answers
// again.
func TestJudge(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		up := hosts{"10.0.0.1": "up", "10.0.0.2": "up"}
		r := &racer{dial: up.dial, lookup: func(context.Context, string) ([]netip.Addr, error) {
			return addresses([]string{"10.0.0.1", "10.0.0.2"}), nil
		}}
		connects := func(want string) {
			t.Helper()
			conn, err := r.Dial(t.Context(), "tcp", "api.example:6443")
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
			if r.last.String() != want {
				t.Errorf("connected to %v, want %s", r.last, want)
			}
		}
		if r.judge(false) {
			t.Error("got other addresses before any lookup")
		}
		connects("10.0.0.1")
		if !r.judge(false) {
			t.Error("got no other addresses, want some")
		}
		connects("10.0.0.2")
		r.judge(true)
		connects("10.0.0.2")
		up["10.0.0.2"] = "refused"
		connects("10.0.0.1")
		r.judge(true)
		up["10.0.0.2"] = "up"
		connects("10.0.0.1")
	})
}

// TestDeadMaster: one of two masters accepts connections and closes them, like a load balancer
// without a server behind it.
func TestDeadMaster(t *testing.T) {
	w := newWorld(t)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(w.server.URL(), "https://"))
	if err != nil {
		t.Fatal(err)
	}
	dead, err := net.Listen("tcp", "127.0.0.9:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	go func() {
		for {
			conn, err := dead.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	kubeconfig := strings.Replace(string(w.server.Kubeconfig()), "https://127.0.0.1:", "https://example.com:", 1)
	if err := os.WriteFile(w.config.Kubeconfig, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	w.config.Lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		if host != "example.com" {
			t.Errorf("got a lookup of %s", host)
		}
		return addresses([]string{"127.0.0.9", "127.0.0.1"}), nil
	}
	w.start()
	w.awaitPhase(Synced)
}
