package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/bench/result"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// startLimit is the time that a server may take to answer: a server that watches a cluster, on a
// slow machine.
const startLimit = 30 * time.Second

// server is a running peer that answers.
type server struct {
	peer     peer
	port     int
	asked    []string // addresses that the clients use, each by its share of them
	children []*child
	group    cgroup   // of the server and its neighbors; removed with the server
	busy     []*child // neighbors, which use all the CPU time that they can get
}

// serve starts a peer and returns when it answers for the names. It adds the port and the number of
// threads to v. kubeconfig is for the cluster's API; nil means no cluster.
func (p place) serve(of peer, v values, kubeconfig []byte, names ...string) (*server, error) {
	at, err := dnstest.FindPort()
	if err != nil {
		return nil, err
	}
	v.Port, v.Threads, v.API = int(at.Port()), cores, kubeconfig != nil
	s, err := p.launch(of, v, kubeconfig)
	if err != nil {
		return nil, err
	}
	if err := s.await(names); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// launch starts a peer with these values.
func (p place) launch(of peer, v values, kubeconfig []byte) (*server, error) {
	command, err := p.command(of.program)
	if err != nil {
		return nil, err
	}
	dir, argv, err := p.settle(of, v, kubeconfig)
	if err != nil {
		return nil, err
	}
	s := &server{peer: of, port: v.Port, group: p.group}
	for range max(of.copies, 1) {
		c, err := start(dir, p.group.enter(slices.Concat(command, argv)))
		if err != nil {
			s.stop()
			return nil, err
		}
		s.children = append(s.children, c)
	}
	return s, nil
}

// settle creates a directory for a peer with its files, and returns its arguments.
func (p place) settle(of peer, v values, kubeconfig []byte) (dir string, argv []string, err error) {
	if dir, err = os.MkdirTemp(p.dirOf(of.program), strings.ReplaceAll(of.name, " ", "")+"-"); err != nil {
		return "", nil, err
	}
	v.Dir = p.seen(of.program, dir)
	v.Config = filepath.Join(v.Dir, filepath.Base(of.config))
	config, argv, err := of.render(v)
	if err != nil {
		return "", nil, err
	}
	files := map[string]string{}
	if of.config != "" {
		files[filepath.Base(of.config)] = config
	}
	if kubeconfig != nil {
		files["kubeconfig"] = string(kubeconfig)
	}
	if v.CA != "" {
		files["ca.pem"], files["key.pem"] = v.CA, v.Key
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", nil, err
		}
	}
	return dir, argv, nil
}

// await waits until the server answers for all names, over UDP and TCP.
func (s *server) await(names []string) error {
	deadline := time.Now().Add(startLimit)
	for _, transport := range []string{"udp", "tcp"} {
		client := dns.Client{Net: transport, Timeout: 250 * time.Millisecond}
		for _, name := range names {
			for !s.answers(&client, name) {
				if err := s.ended(); err != nil {
					return err
				}
				if time.Now().After(deadline) {
					return fmt.Errorf("%s does not answer for %s: %s", s.peer.name, name, lastLine(s.children[0].text()))
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
	return nil
}

// answers reports whether the server returns an address for the name. The answers of the echo
// server are empty.
func (s *server) answers(client *dns.Client, name string) bool {
	answer, _, err := client.Exchange(new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA), s.address())
	return err == nil && answer.Rcode == dns.RcodeSuccess && (len(answer.Answer) > 0 || s.peer.name == result.Limit)
}

// ended returns why the server is no longer running, or nil if it is running.
func (s *server) ended() error {
	for _, c := range s.children {
		if !c.running() {
			return fmt.Errorf("%s ended: %s", s.peer.name, lastLine(c.text()))
		}
	}
	return nil
}

func (s *server) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s *server) pids() []int {
	var pids []int
	for _, c := range s.children {
		pids = append(pids, c.pid())
	}
	return pids
}

// setNeighbors starts n processes in the server's control group that never sleep.
func (s *server) setNeighbors(dir string, n int) error {
	for range n {
		c, err := start(dir, s.group.enter([]string{"/bin/sh", "-c", "while :; do :; done"}))
		if err != nil {
			return err
		}
		s.busy = append(s.busy, c)
	}
	return nil
}

func (s *server) stopNeighbors() {
	for _, c := range s.busy {
		c.stop()
	}
	s.busy = nil
}

func (s *server) stop() {
	s.stopNeighbors()
	for _, c := range s.children {
		c.stop()
	}
	s.group.remove()
}
