package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// cpuOf returns the CPU time of a process and its ended children.
func cpuOf(t testing.TB, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	var ticks [2]int64
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
	for i := range ticks {
		fmt.Sscan(fields[11+i], &ticks[i])
	}
	return time.Duration(ticks[0]+ticks[1]) * 10 * time.Millisecond
}

// flood sends queries for cached names as fast as they are answered for the given time, and returns
// the number of answers.
func flood(t testing.TB, server netip.AddrPort, names []string, d time.Duration) (answers int) {
	t.Helper()
	counts := make(chan int)
	for client := range 2 {
		go func() {
			n := 0
			defer func() { counts <- n }()
			conn, err := net.DialUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, byte(10+client))}, net.UDPAddrFromAddrPort(server))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			var queries [][]byte
			for _, name := range names {
				query, err := new(dns.Msg).SetQuestion(name, dns.TypeA).SetEdns0(1232, false).Pack()
				if err != nil {
					t.Error(err)
					return
				}
				queries = append(queries, query)
			}
			buf, owed := make([]byte, 4096), 0
			for end := time.Now().Add(d); time.Now().Before(end); {
				for owed < 16 {
					conn.Write(queries[(n+owed)%len(queries)])
					owed++
				}
				conn.SetReadDeadline(time.Now().Add(time.Second))
				if _, err := conn.Read(buf); err != nil {
					owed = 0
					continue
				}
				owed--
				n++
			}
		}()
	}
	return <-counts + <-counts
}

// BenchmarkTop measures the cost of node-dns top while the cache answers at full speed: answers per
// second, and the daemon's CPU time per answer, alternately without and with top. It runs once.
func BenchmarkTop(b *testing.B) {
	lab.NeedPrograms(b, "tmux")
	root, pid, server := floodWorld(b)
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprintf("n%d.example.", i))
	}
	flood(b, server, names, 2*time.Second)
	const rounds, each = 60, time.Second
	var answers, cpu, shares []float64
	for round := range rounds {
		var n, perQuery [2]float64
		for _, open := range []int{round % 2, 1 - round%2} {
			var term *tmux
			screen, before := time.Duration(0), time.Duration(0)
			if open == 1 {
				term = newTmux(b, lab.ShortDir(b), "200x50", "node-dns --root "+root+" top")
				term.await("ready")
				screen = cpuOf(b, topPID(b, term))
			}
			before = cpuOf(b, pid)
			n[open] = float64(flood(b, server, names, each))
			perQuery[open] = float64(cpuOf(b, pid)-before) / n[open]
			if term != nil {
				shares = append(shares, (cpuOf(b, topPID(b, term))-screen).Seconds()/each.Seconds())
				term.press("q")
				term.await("ended 0")
			}
		}
		answers, cpu = append(answers, n[1]/n[0]), append(cpu, perQuery[1]/perQuery[0])
	}
	for name, values := range map[string][]float64{"answers-ratio": answers, "cpu/answer-ratio": cpu, "top-cpu": shares} {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], name)
		b.Logf("%s: %.4f", name, values)
	}
}

// topPID returns the PID of node-dns in a terminal.
func topPID(t testing.TB, term *tmux) int {
	t.Helper()
	shell := strings.TrimSpace(term.run("display-message", "-p", "#{pane_pid}"))
	text, err := os.ReadFile("/proc/" + shell + "/task/" + shell + "/children")
	if err != nil {
		t.Fatal(err)
	}
	pid := 0
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return pid
}

// floodWorld starts a daemon that answers names of example.
func floodWorld(t testing.TB) (root string, pid int, server netip.AddrPort) {
	t.Helper()
	root = lab.ShortDir(t)
	site := dnstest.NewServer(t, "*.example. 300 IN A 192.0.2.80\n")
	cmd := exec.Command("node-dns", "--root", root, "serve", "--listen", "127.0.0.1:0", "--upstream", site.Addr().String())
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if !lab.Poll(20*time.Second, func() bool {
		status, err := control.FetchStatus(context.Background(), control.SocketPath(root))
		if err != nil || len(status.Listeners) == 0 {
			return false
		}
		server, err = netip.ParseAddrPort(status.Listeners[0].Address)
		return err == nil
	}) {
		t.Fatal("the daemon did not start")
	}
	return root, cmd.Process.Pid, server
}
