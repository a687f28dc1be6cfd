package nspawn

import (
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/admin/doctor"
	"github.com/node-dns/node-dns/internal/test/golden"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// Nameservers of brokenNode: two of the site, which know all names, and one that simulates the
// cluster's nameserver.
const (
	site1     = "10.77.0.61"
	site2     = "10.77.0.62"
	clusterNS = "10.77.0.63"

	nodeDNSYAML = "/etc/node-dns/node-dns.yaml"
)

// siteConf is an unbound configuration without data.
const siteConf = `server:
  directory: ""
  chroot: ""
  username: ""
  pidfile: ""
  use-syslog: no
  logfile: ""
  interface: %s
  access-control: 0.0.0.0/0 allow
  module-config: "iterator"
  do-not-query-localhost: no
%s`

// world is the data of a closed site's nameserver: its own names without the root's keys. The long
// name's answer has about 950 bytes.
func world(addr string, more ...string) string {
	text := strings.Repeat("x", 220)
	lines := slices.Concat([]string{
		"www.up.example. 2 IN A 192.0.2.1", "who.test. 0 IN TXT " + addr, "long.up.example. 2 IN TXT " + strings.Join([]string{text, text, text, text}, " "),
		". 300 IN SOA ns.up.example. root.up.example. 1 3600 600 86400 2", ". 300 IN NS ns.up.example.",
	}, more)
	conf := "  local-zone: \".\" static\n"
	for _, line := range lines {
		conf += "  local-data: '" + line + "'\n"
	}
	return conf
}

// kubernetesName is a record that only the cluster's nameserver has.
const kubernetesName = "kubernetes.default.svc.cluster.local. 5 IN A 172.30.0.1"

// forwardTo makes a nameserver forward all queries.
func forwardTo(addr string) string {
	return "forward-zone:\n  name: \".\"\n  forward-addr: " + addr + "\n"
}

// bogusWorld validates names that are not signed. Without validation it forwards the query.
const bogusWorld = `  module-config: "validator iterator"
  trust-anchor: "example. 3600 IN DS 12345 8 2 0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF"
`

// brokenNode is a serving node with two upstreams. The tests break its DNS in one way after the
// other.
type brokenNode struct {
	*node
	servers map[string]*lab.Process // by address
	usual   map[string]bool         // checks with a warning while nothing is broken
}

func newBrokenNode(t *testing.T) *brokenNode {
	t.Helper()
	lab.NeedPrograms(t, "unbound", "nft")
	b := &brokenNode{node: newNode(t), servers: map[string]*lab.Process{}}
	for _, addr := range []string{site1, site2, clusterNS} {
		b.lan.Run("ip", "address", "add", addr+"/24", "dev", "lan0")
	}
	b.start(site1, world(site1))
	b.start(site2, world(site2))
	b.dhcp.SetNameservers(site1, site2)
	b.boot()
	b.Await("a lease", func() bool { return strings.Contains(b.ReadFile(resolvConf), "nameserver "+site1) })
	b.Run("systemctl", "enable", "--now", "node-dns.service")
	b.awaitPointed()
	b.awaitApplied()
	b.awaitResolves()
	return b
}

// start starts the nameserver at an address with its data.
func (b *brokenNode) start(addr, conf string) {
	b.t.Helper()
	file := filepath.Join("/run/lab", "site-"+addr+".conf")
	b.l.WriteFile(file, fmt.Sprintf(siteConf, addr, conf))
	p := b.lan.Start("unbound", "-d", "-p", "-v", "-c", file)
	b.Await("the nameserver at "+addr, func() bool { return strings.Contains(p.Output(), "start of service") })
	b.servers[addr] = p
}

// restart restarts both upstreams with the configuration that conf returns for each.
func (b *brokenNode) restart(conf func(addr string) string) {
	b.stop(site1, site2)
	for _, addr := range []string{site1, site2} {
		b.start(addr, conf(addr))
	}
}

// heal restores the normal data of both upstreams.
func (b *brokenNode) heal() { b.restart(func(addr string) string { return world(addr) }) }

func (b *brokenNode) stop(addrs ...string) {
	for _, addr := range addrs {
		b.servers[addr].Kill()
	}
}

// write writes the admin's file and waits until the daemon has applied it.
func (b *brokenNode) write(text string) {
	b.WriteFile(nodeDNSYAML, text, 0o644)
	b.Run("systemctl", "reload", "node-dns.service")
}

// resolves reports whether the host and a pod resolve a name.
func (b *brokenNode) resolves() bool {
	out, err := b.pods.Try("dig", "+short", "+tries=1", "+timeout=2", "@"+nodeIP, "www.up.example")
	return err == nil && strings.TrimSpace(out) == "192.0.2.1" && b.libc() == "192.0.2.1"
}

func (b *brokenNode) awaitResolves() {
	b.t.Helper()
	b.Await("names to resolve", b.resolves)
}

// report runs doctor and returns its findings.
func (b *brokenNode) report(arguments ...string) (r doctor.Report) {
	b.t.Helper()
	out, err := b.Try(append([]string{"node-dns", "doctor", "-o", "json"}, arguments...)...)
	if jsonErr := json.Unmarshal([]byte(out), &r); jsonErr != nil || (err != nil) != (r.Failures > 0) {
		b.t.Fatalf("%v, %v:\n%s", err, jsonErr, out)
	}
	return r
}

func failures(r doctor.Report) (failed []doctor.Finding) {
	for _, f := range r.Findings {
		if f.Level == doctor.Fail {
			failed = append(failed, f)
		}
	}
	return failed
}

var onlyBroken = flag.String("broken", "", "play the breakages alone whose name has this in it")

// patience bounds the wait for doctor's result. The daemon needs some seconds to mark a nameserver
// as down or up.
const patience = time.Minute

// breakage is one way in which a node's DNS is broken.
type breakage struct {
	name  string
	fault func(b *brokenNode)
	asks  string   // name and type that a pod queries meanwhile
	look  []string // further arguments of doctor
	check string   // the check with the only failure, or with the warning if names still resolve
	level doctor.Level
	page  string // part of doctor's message
	says  []string
	fix   string              // part of the advice; sh(1) runs it on the node
	apply func(b *brokenNode) // replaces running fix if that concerns another machine or a file
	after func(b *brokenNode) // reverts what the fix does not
}

// left returns the indices of the row's findings.
func (row breakage) left(r doctor.Report) (found []int) {
	for i, f := range r.Findings {
		if f.Check == row.check && f.Level != doctor.OK && strings.Contains(f.What, row.page) {
			found = append(found, i)
		}
	}
	return found
}

// play breaks the node. It checks that doctor finds the fault, that no other finding precedes it,
// and that its advice fixes it: doctor no longer reports it, and names resolve. It returns what
// doctor prints about the fault.
func (b *brokenNode) play(row breakage) (shown string) {
	t := b.t
	t.Helper()
	if row.level == "" {
		row.level = doctor.Fail
	}
	row.fault(b)
	var at int
	var last doctor.Report
	isFound := lab.Poll(patience, func() bool {
		b.podAsks(row.asks)
		last = b.report(row.look...)
		found, before := row.left(last), shown
		shown = ""
		if len(found) != 1 || last.Findings[found[0]].Level != row.level || row.level == doctor.Fail && last.Failures != 1 {
			return false
		}
		at = found[0]
		shown = shownAs(last.Findings[at])
		return shown == before // otherwise the daemon may still learn about the fault
	})
	t.Logf("%s:\n%s", row.name, text(last))
	if !isFound {
		t.Fatalf("%s: doctor does not find the fault", row.name)
	}
	f := last.Findings[at]
	if row.level != doctor.Fail && last.Failures > 0 {
		t.Errorf("%s: got %d failures, want 0", row.name, last.Failures)
	}
	for _, other := range last.Findings[:at] {
		if other.Level != doctor.OK && !b.usual[other.Check] {
			t.Errorf("%s: the cause comes after %s: %s", row.name, other.Check, other.What)
		}
	}
	whole := strings.Join(append([]string{f.What, f.Fix}, f.Details...), "\n")
	for _, part := range append([]string{row.fix}, row.says...) {
		if !strings.Contains(whole, part) {
			t.Errorf("%s: doctor's output lacks %q", row.name, part)
		}
	}
	if row.apply != nil {
		row.apply(b)
	} else {
		b.Run("sh", "-ec", row.fix)
	}
	if !lab.Poll(patience, func() bool {
		last = b.report(row.look...)
		return last.Failures == 0 && len(row.left(last)) == 0 && b.resolves()
	}) {
		t.Fatalf("%s: the fix does not help:\n%s", row.name, text(last))
	}
	if row.after != nil {
		row.after(b)
		b.awaitResolves()
	}
	return shown
}

// text formats the report without the checks that passed.
func text(r doctor.Report) string {
	r.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f doctor.Finding) bool { return f.Level == doctor.OK })
	var out strings.Builder
	if err := r.WriteText(&out); err != nil {
		return err.Error()
	}
	return out.String()
}

func playAll(t *testing.T, rows []breakage) {
	b := newBrokenNode(t)
	before := b.report()
	if failed := failures(before); len(failed) > 0 {
		t.Fatalf("before the first fault: got failures %+v", failed)
	}
	b.usual = map[string]bool{}
	for _, f := range before.Findings {
		b.usual[f.Check] = b.usual[f.Check] || f.Level != doctor.OK
	}
	t.Logf("before the first fault:\n%s", text(before))
	var page strings.Builder
	for _, row := range rows {
		if strings.Contains(row.name, *onlyBroken) {
			fmt.Fprintf(&page, "### %s\n\n```\n%s```\n\n", title(row.name), b.play(row))
		}
	}
	if *onlyBroken == "" {
		golden.CheckTable(t, filepath.Join(repository, faultsPage), "./test/nspawn -run "+t.Name(), strings.TrimSuffix(page.String(), "\n"))
	}
}

// smallerAnswers is the command with which doctor makes node-dns request smaller answers.
const smallerAnswers = `grep -qs '^edns-packet-max=' /etc/dnsmasq.conf || printf '\nedns-packet-max=512\n' >>/etc/dnsmasq.conf`

// filter adds a rule to a hook of the LAN, like a firewall between the node and its nameservers.
func (b *brokenNode) filter(rule string) {
	b.lan.Run("nft", "add table inet way; add chain inet way out { type filter hook output priority 0; }; add chain inet way in { type filter hook input priority 0; }; add rule inet way "+rule)
}

func (b *brokenNode) unfilter() { b.lan.Run("nft", "delete table inet way") }

// forget empties the cache, so that names must be queried.
func (b *brokenNode) forget() { b.Run("node-dns", "cache", "flush", "--all") }

// podAsks sends a pod's query for a name and a type, and ignores the result.
func (b *brokenNode) podAsks(question string) {
	if question != "" {
		b.pods.Try(append([]string{"dig", "+tries=1", "+timeout=6", "@" + nodeIP}, strings.Fields(question)...)...)
	}
}

// TestBrokenUpstreams breaks the upstream nameservers and the path to them.
func TestBrokenUpstreams(t *testing.T) {
	playAll(t, []breakage{
		{
			name: "one upstream is down", fault: func(b *brokenNode) { b.stop(site2) },
			check: "upstreams", level: doctor.Warn, page: "connection refused: the host is up, but no nameserver listens there",
			says: []string{"upstream " + site2, "other nameservers answer instead"}, fix: "start the nameserver at " + site2, apply: func(b *brokenNode) { b.start(site2, world(site2)) },
		},
		{
			name: "both upstreams are down", fault: func(b *brokenNode) { b.stop(site1, site2); b.forget() },
			check: "upstreams", page: "connection refused: the host is up, but no nameserver listens there",
			says: []string{"upstream " + site1, "upstream " + site2}, fix: "start the nameserver at " + site1,
			apply: (*brokenNode).heal,
		},
		{
			name: "both are silent", fault: func(b *brokenNode) { b.filter("in th dport 53 drop"); b.forget() },
			check: "upstreams", page: "does not answer over UDP: no answer within 2s", fix: "firewalls in between", apply: (*brokenNode).unfilter,
		},
		{
			name: "a filter of the node drops port 53", fault: func(b *brokenNode) {
				b.Run("nft", "add table inet own; add chain inet own out { type filter hook output priority 0; }; add rule inet own out ip daddr { "+site1+", "+site2+" } th dport 53 drop")
				b.forget()
			},
			check: "upstreams", page: "operation not permitted: a packet filter on this node drops the queries", fix: "nft 'insert rule inet own out meta l4proto { tcp, udp } th dport 53 accept'",
			after: func(b *brokenNode) { b.Run("nft", "delete", "table", "inet", "own") },
		},
		{
			name: "UDP is dropped", fault: func(b *brokenNode) { b.filter("in udp dport 53 drop"); b.forget() },
			check: "upstreams", page: "it answers over TCP: a firewall drops UDP", fix: "allow UDP port 53 to it", apply: (*brokenNode).unfilter,
		},
		{
			name: "TCP is dropped", fault: func(b *brokenNode) { b.filter("in tcp dport 53 drop") },
			check: "upstreams", level: doctor.Warn, page: "but not every query", says: []string{"it does not answer over TCP"}, fix: "allow TCP and UDP port 53 and datagrams of 1232 bytes in every firewall", apply: (*brokenNode).unfilter,
		},
		{
			name: "answers of 600 to 1300 bytes are dropped", fault: func(b *brokenNode) {
				b.filter("out udp sport 53 meta length 600-1300 drop")
				b.forget()
			},
			asks: "long.up.example TXT", check: "upstreams", level: doctor.Warn, page: "sends answers of more than 512 bytes that are lost over UDP",
			fix: smallerAnswers, says: []string{"allow datagrams and fragments of 1232 bytes in every firewall on the path"}, apply: func(b *brokenNode) {
				b.Run("sh", "-ec", smallerAnswers)
				b.forget()
				b.Await("a long answer before the firewall is corrected", func() bool {
					out, err := b.pods.Try("dig", "+short", "+tries=1", "+timeout=4", "@"+nodeIP, "long.up.example", "TXT")
					return err == nil && strings.Contains(out, "xxx")
				})
				b.unfilter()
			},
			after: func(b *brokenNode) { b.Run("rm", "/etc/dnsmasq.conf") },
		},
		{
			name: "the upstreams find all names bogus", fault: func(b *brokenNode) {
				b.restart(func(string) string { return bogusWorld + forwardTo(ns1) })
				b.forget()
			},
			asks: "www.up.example A", check: "upstreams", page: "answers SERVFAIL because DNSSEC validation fails; without validation the names resolve", fix: "correct the clock and the trust anchor of that nameserver",
			apply: (*brokenNode).heal,
		},
		{
			name: "the upstreams forward to this node", fault: func(b *brokenNode) {
				b.restart(func(string) string { return forwardTo(nodeIP) })
				b.forget()
			},
			check: "loop", page: "queries sent there come back to this node", fix: "make it forward to the site's", apply: (*brokenNode).heal,
		},
		{
			name: "an old NXDOMAIN is cached", fault: func(b *brokenNode) {
				b.restart(func(addr string) string {
					return world(addr) + "  local-zone: \"new.example.\" static\n  local-data: 'new.example. 300 IN SOA ns.up.example. root.up.example. 1 3600 600 86400 300'\n"
				})
				b.forget()
				b.podAsks("www.new.example A")
				b.restart(func(addr string) string { return world(addr, "www.new.example. 5 IN A 192.0.2.7") })
			},
			check: "cache", look: []string{"--name", "www.new.example"}, page: "in the cache (age ", fix: "node-dns cache flush www.new.example.",
		},
	})
}
