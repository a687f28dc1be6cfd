package nspawn

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/test/manpage"
)

// logEntry holds the fields of one entry of `journalctl -o json`.
type logEntry map[string]any

func (e logEntry) get(field string) string {
	text, _ := e[field].(string)
	return text
}

// entries returns the entries that journalctl finds with these arguments.
func (n *node) entries(argv ...string) (all []logEntry) {
	n.t.Helper()
	out := n.Run(append([]string{"journalctl", "--quiet", "--output=json"}, argv...)...)
	for line := range strings.Lines(out) {
		var e logEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			n.t.Fatalf("%v: %s", err, line)
		}
		all = append(all, e)
	}
	return all
}

// awaitCondition waits until the journal has a new entry of a condition with part in a field, and
// returns it. It searches like an admin. seen are the known entries.
func (n *node) awaitCondition(c journal.Condition, field, part string, seen map[string]bool) (found logEntry) {
	n.t.Helper()
	n.Await("the condition "+c.String()+" with "+field+"="+part, func() bool {
		for _, e := range n.entries("MESSAGE_ID=" + c.Explain().ID) {
			if cursor := e.get("__CURSOR"); !seen[cursor] && strings.Contains(e.get(field), part) {
				seen[cursor] = true
				found = e
				return true
			}
		}
		return false
	})
	if !strings.HasSuffix(found.get("MESSAGE"), " condition="+c.String()) || found.get("NODE_DNS_CONDITION") != c.String() {
		n.t.Errorf("%s: %v", c, found)
	}
	return found
}

// TestJournal: the journal has the events of a node, by condition, with fields, and under the units
// where an admin looks.
func TestJournal(t *testing.T) {
	n := newLeasedNode(t)
	n.CopyFile("/usr/lib/systemd/catalog/node-dns.catalog", filepath.Join(repository, "packaging/journal/node-dns.catalog"), 0o644)
	n.Run("journalctl", "--update-catalog")
	seen := map[string]bool{}
	has := func(c journal.Condition, field, part string) {
		t.Helper()
		n.awaitCondition(c, field, part, seen)
	}
	n.Run("systemctl", "enable", "--now", "node-dns.service")
	has(journal.Listening, "NODE_DNS_ADDRESSES", nodeIP+":53")
	has(journal.Ready, "SYSLOG_IDENTIFIER", "node-dns")
	has(journal.ResolvConfPointed, "NODE_DNS_WRITTEN", resolvConf)
	n.awaitServing()
	n.Run("nmcli", "connection", "up", "eth0")
	n.Await("the hook by an event", func() bool {
		return len(n.entries("-u", "NetworkManager-dispatcher", "-t", "origin-dns-dispatcher")) > 0
	})
	n.awaitServing()

	n.upstream.Kill()
	n.Await("the upstream to be missed", func() bool { return n.ask() == "" && len(n.entries("NODE_DNS_CONDITION=upstreams-down")) > 0 })
	has(journal.UpstreamDown, "NODE_DNS_SERVER", ns1)
	has(journal.UpstreamsDown, "NODE_DNS_DOMAINS", ".")
	n.lan.Nameserver(ns1)
	n.Await("the upstream to answer", func() bool { return n.ask() == ns1 })
	has(journal.UpstreamUp, "NODE_DNS_SERVER", ns1)
	has(journal.UpstreamsUp, "NODE_DNS_DOMAINS", ".")

	const config = "/etc/node-dns/node-dns.yaml"
	n.WriteFile(config, "cacheSize: many\n", 0o644)
	has(journal.ConfigFault, "NODE_DNS_ERROR", config+":1:12: cacheSize: ")
	n.Run("systemctl", "reload", "node-dns.service")
	has(journal.ReloadFailed, "PRIORITY", "3")
	n.WriteFile(config, "cacheSize: 100\n", 0o644)
	has(journal.ConfigTaken, "PRIORITY", "6")
	has(journal.ProblemSolved, "NODE_DNS_PROBLEM", "cacheSize")

	n.Run("systemctl", "restart", "node-dns.service")
	has(journal.HandedOver, "_SYSTEMD_UNIT", "node-dns.service")
	has(journal.TookOver, "_SYSTEMD_UNIT", "node-dns.service")
	has(journal.Ready, "SYSLOG_IDENTIFIER", "node-dns")
	n.Run("systemctl", "kill", "--kill-who=main", "--signal=KILL", "node-dns.service")
	has(journal.Died, "NODE_DNS_RESULT", "signal")
	has(journal.Ready, "SYSLOG_IDENTIFIER", "node-dns")
	n.awaitServing()
	n.Run("systemctl", "stop", "node-dns.service")
	has(journal.Stopping, "NODE_DNS_SIGNAL", "terminated")
	has(journal.ResolvConfRestored, "SYSLOG_IDENTIFIER", "origin-dns-dispatcher")

	n.checkEntries()
	n.checkCommands()
	if got := n.Run("journalctl", "--catalog", "--quiet", "MESSAGE_ID="+journal.UpstreamDown.Explain().ID); !strings.Contains(got,
		"░░ Subject: DNS of this node: upstream down\n") || !strings.Contains(got, "The upstream nameserver "+ns1+" failed three times") {
		t.Errorf("journalctl -x gives no explanation:\n%s", got)
	}
	n.checkFaultyStart()
}

// checkFaultyStart: a start with an invalid file logs every fault and shows it in the unit's
// status, but still succeeds.
func (n *node) checkFaultyStart() {
	n.t.Helper()
	const config = "/etc/node-dns/node-dns.yaml"
	n.WriteFile(config, "cacheSize: many\nupstream: 192.0.2.53\n", 0o644)
	n.Run("systemctl", "start", "node-dns.service")
	if got := n.property("node-dns.service", "ActiveState"); got != "active" {
		n.t.Errorf("with an invalid file: got unit state %s", got)
	}
	said := n.Run("journalctl", "--quiet", "-o", "cat", "-u", "node-dns", "_TRANSPORT=stdout")
	for _, fault := range []string{config + ":1:12: cacheSize: ", config + ":2:1: "} {
		if !strings.Contains(said, fault) {
			n.t.Errorf("the log before the start lacks %q:\n%s", fault, said)
		}
	}
	if got := n.property("node-dns.service", "ExecStartPre"); !regexp.MustCompile(`check-config --quiet ; ignore_errors=yes ;.* status=1 `).MatchString(got) {
		n.t.Errorf("the unit does not show the failed check: %s", got)
	}
	n.Run("systemctl", "stop", "node-dns.service")
}

// checkCommands runs the systemctl and journalctl commands of the guide and the man page, on a node
// where all of this has happened.
func (n *node) checkCommands() {
	n.t.Helper()
	guide, err := os.ReadFile(filepath.Join(repository, "docs/howto/troubleshooting.md"))
	if err != nil {
		n.t.Fatal(err)
	}
	text := string(guide) + "\n" + strings.Join(manpage.Read(n.t, filepath.Join(repository, "man/node-dns.8")).Examples, "\n")
	n.Run("systemctl", "start", "node-dns.service") // systemctl status fails for a unit that does not run
	commands := regexp.MustCompile("(?m)(?:^|`)((?:systemctl status|journalctl) [^`#\n]+)").FindAllStringSubmatch(text, -1)
	if len(commands) < 10 {
		n.t.Errorf("got only %d commands: %q", len(commands), commands)
	}
	for _, command := range commands {
		here := strings.Replace(command[1], "192.0.2.53", ns1, 1) // the man page's upstream
		if out, err := n.Try("sh", "-c", here); err != nil || strings.TrimSpace(out) == "" || strings.Contains(out, "-- No entries --") {
			n.t.Errorf("%s: %v\n%s", command[1], err, out)
		}
	}
	n.Run("systemctl", "stop", "node-dns.service")
}

// checkEntries checks all entries of both programs.
func (n *node) checkEntries() {
	n.t.Helper()
	ofUnits := n.entries("-u", "node-dns", "-u", "node-dns-apply", "-u", "NetworkManager-dispatcher", "-t", "node-dns", "-t", "origin-dns-dispatcher")
	all := n.entries("-t", "node-dns", "-t", "origin-dns-dispatcher")
	if len(all) != len(ofUnits) {
		n.t.Errorf("journalctl -u found %d of %d entries", len(ofUnits), len(all))
	}
	line := regexp.MustCompile(`^level=(DEBUG|INFO|WARN|ERROR) msg=`)
	programs := map[string]int{}
	for _, e := range all {
		programs[e.get("SYSLOG_IDENTIFIER")]++
		message := e.get("MESSAGE")
		if !line.MatchString(message) || strings.Contains(message, " time=") {
			n.t.Errorf("got a message with a time: %s", message)
		}
		if e.get("_TRANSPORT") != "journal" || e.get("NODE_DNS_MSG") == "" || e.get("PRIORITY") == "" {
			n.t.Errorf("got an entry without fields: %v", e)
		}
	}
	if programs["node-dns"] == 0 || programs["origin-dns-dispatcher"] == 0 || len(programs) != 2 {
		n.t.Errorf("got entries by program: %v", programs)
	}
}

// TestJournaldHangs: if journald does not read and its queue is full, pods still get answers and a
// run of the hook ends. Once journald reads again, the journal contains the messages of that time.
func TestJournaldHangs(t *testing.T) {
	n := newLeasedNode(t)
	n.Run("systemctl", "enable", "--now", "node-dns.service")
	n.awaitServing()
	n.Run("systemctl", "kill", "--signal=STOP", "systemd-journald.service")
	fill(t, n.Path("/run/systemd/journal/socket"))
	for range 3 {
		n.WriteFile("/etc/node-dns/node-dns.yaml", "cacheSize: many\n", 0o644)
		n.Run("systemctl", "kill", "--kill-who=main", "--signal=HUP", "node-dns.service")
		n.Await("the fault in the status", func() bool {
			out, err := n.Try("node-dns", "status")
			return err != nil && strings.Contains(out, "cacheSize")
		})
		n.WriteFile("/etc/node-dns/node-dns.yaml", "cacheSize: 100\n", 0o644)
		n.Await("no fault in the status", func() bool { _, err := n.Try("node-dns", "status"); return err == nil })
		if got := n.ask(); got != ns1 {
			t.Errorf("a pod got %q", got)
		}
	}
	n.Run("systemctl", "start", "node-dns-apply.service")
	n.Run("systemctl", "kill", "--signal=CONT", "systemd-journald.service")
	n.Await("what was said meanwhile", func() bool {
		return len(n.entries("-u", "node-dns", "_TRANSPORT=stdout", "PRIORITY=3")) > 0 && len(n.entries("-u", "node-dns-apply", "_TRANSPORT=stdout")) > 0
	})
}

// fill fills the queue of a datagram socket that no process reads. If the queue is long, one sender
// is not enough, because unread messages use up its own send buffer.
func fill(t *testing.T, path string) {
	t.Helper()
	for range 1000 {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		sent := 0
		for ; err == nil; sent++ {
			err = unix.Sendto(fd, []byte("MESSAGE=fills the queue\n"), unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: path})
		}
		switch {
		case !errors.Is(err, unix.EAGAIN):
			t.Fatal(err)
		case sent == 1: // the first message failed
			return
		}
	}
	t.Fatal("the queue never became full")
}

// TestJournalOfBus: the journal says that the bus refuses the daemon, that it no longer does, and
// who set what.
func TestJournalOfBus(t *testing.T) {
	n := newLeasedNode(t)
	seen := map[string]bool{}
	const policy = "/usr/share/dbus-1/system.d/node-dns.conf"
	n.Run("rm", "-f", policy)
	n.Run("systemctl", "reload", "dbus.service")
	n.Run("systemctl", "enable", "--now", "node-dns.service")
	n.awaitCondition(journal.BusAway, "NODE_DNS_WHY", "not allowed to own", seen)
	n.CopyFile(policy, filepath.Join(repository, "packaging/dbus/node-dns.conf"), 0o644)
	n.Run("systemctl", "reload", "dbus.service")
	n.Run("systemctl", "restart", "node-dns.service") // the daemon would retry by itself after 30 s
	n.awaitCondition(journal.BusName, "NODE_DNS_NAME", "org.node_dns", seen)
	n.awaitCondition(journal.BusName, "NODE_DNS_NAME", "uk.org.thekelleys.dnsmasq", seen)
	n.Run("busctl", "call", "uk.org.thekelleys.dnsmasq", "/uk/org/thekelleys/dnsmasq", "uk.org.thekelleys.dnsmasq", "SetDomainServers", "as", "1",
		"/corp.test/"+ns2)
	if by := n.awaitCondition(journal.BusSet, "NODE_DNS_SERVERS", ns2, seen).get("NODE_DNS_BY"); !strings.HasPrefix(by, "SetDomainServers by ") {
		t.Errorf("got the caller %q", by)
	}
	if got := n.Run("busctl", "get-property", "org.node_dns", "/org/node_dns", "org.node_dns.Manager", "ClusterDomain"); got != "s \"cluster.local.\"\n" {
		t.Errorf("got the cluster domain %s", got)
	}
}
