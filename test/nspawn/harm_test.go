package nspawn

import (
	"cmp"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// By default the seed comes from the date, and a run does as many walks as fit into the time. The
// time only decides how many walks start.
var (
	harmTime   = flag.Duration("harm.time", 55*time.Second, "time in which TestNoHarmManaged and TestNoHarmByHand start walks")
	harmWalks  = flag.Int("harm.walks", 0, "walks for each kind of host and form of its resolv.conf; 0 means as many as -harm.time allows")
	harmRounds = flag.Int("harm.rounds", 1, "starts and ends of node-dns in each walk")
	harmSeed   = flag.Uint64("harm.seed", 0, "seed of the first walks; 0 means the number of days since 1970")
)

// harmLeast is the number of walks that a run does even on a slow machine. The next day's run
// continues after them.
const harmLeast = 3

// awaitLimit bounds a wait for an expected state. It only detects a stuck machine and is not a
// performance limit.
const awaitLimit = time.Minute

// A harmStep is one step of a walk, with a name for the log of a failure.
type harmStep struct {
	name  string
	where func(p *twins) bool // nil means every host
	do    func(p *twins, random *rand.Rand)
}

func managed(p *twins) bool { return p.kind.manages }

// editable: the model would keep what an admin writes through a program's link until that program
// writes the file again.
func editable(p *twins) bool { return !p.kind.keepsLink || p.kind.rewrite != nil }

// editedText is a resolv.conf that an admin may write.
func editedText(random *rand.Rand) string {
	return fmt.Sprintf("search edited%d.example\nnameserver %s\n", random.IntN(10), []string{ns1, ns2, adminNS}[random.IntN(3)])
}

// changes are what an admin, NetworkManager, DHCP or another tool may do while node-dns runs. Where
// a program writes resolv.conf, an admin's edit lasts until its next write, which follows at once.
var changes = []harmStep{
	{"an admin edits resolv.conf", editable, func(p *twins, random *rand.Rand) {
		p.edit("cat >"+resolvConf, editedText(random))
	}},
	{"an admin replaces resolv.conf", func(p *twins) bool {
		return p.form != mounted && !(p.form == linked && p.kind.keepsLink)
	}, func(p *twins, random *rand.Rand) {
		p.edit("cat >/etc/resolv.new; mv /etc/resolv.new "+resolvConf, editedText(random))
	}},
	{"an admin changes the search list in resolv.conf", editable, func(p *twins, random *rand.Rand) {
		p.rewriting(fmt.Sprintf("sed 's/^search .*/search changed%d.example/' %[2]s >/etc/resolv.new; cat /etc/resolv.new >%[2]s", random.IntN(10), resolvConf))
	}},
	{"an admin edits the file behind the link", func(p *twins) bool { return p.form == linked && p.kind.text != "" && !p.replaced }, func(p *twins, random *rand.Rand) {
		text := editedText(random)
		p.edited = true
		p.both(func(n *node) { n.Run("sh", "-c", "cat >"+adminsFile+" <<'END'\n"+text+"END") })
	}},
	{"DHCP offers another nameserver", func(p *twins) bool { return p.kind.renew != nil }, func(p *twins, random *rand.Rand) {
		offer := [][]string{{ns1}, {ns2}, {ns2, ns1}}[random.IntN(3)]
		p.both(func(n *node) { p.kind.renew(n, offer) })
	}},
	{"the search list changes", managed, func(p *twins, random *rand.Rand) {
		search := fmt.Sprintf("site%d.example", random.IntN(10))
		p.both(func(n *node) {
			n.Run("nmcli", "connection", "modify", "eth0", "ipv4.dns-search", search)
			n.Run("nmcli", "device", "reapply", "eth0")
		})
	}},
	{"a VPN comes", managed, func(p *twins, _ *rand.Rand) {
		p.both(func(n *node) {
			if _, err := n.Try("nmcli", "connection", "show", "vpn"); err != nil {
				n.Run("nmcli", "connection", "add", "type", "bridge", "ifname", "vpn0", "con-name", "vpn", "autoconnect", "no", "bridge.stp", "no", "ipv4.method", "manual",
					"ipv4.addresses", "10.7.0.1/24", "ipv4.never-default", "yes", "ipv4.dns", vpnNS, "ipv4.dns-search", "vpn.example", "ipv6.method", "disabled")
			}
			n.Run("nmcli", "connection", "up", "vpn")
		})
	}},
	{"the VPN goes", managed, func(p *twins, _ *rand.Rand) {
		p.both(func(n *node) { n.Try("nmcli", "connection", "down", "vpn") }) // usually it does not exist
	}},
	{"NetworkManager writes resolv.conf again", managed, func(p *twins, _ *rand.Rand) { p.both((*node).rewriteResolvConf) }},
	{"NetworkManager is restarted", managed, func(p *twins, _ *rand.Rand) {
		p.both(func(n *node) {
			n.Run("systemctl", "restart", "NetworkManager.service")
			n.Await("eth0", func() bool {
				return strings.Contains(first(n.Try("nmcli", "-g", "GENERAL.STATE", "device", "show", "eth0")), "(connected)")
			})
		})
	}},
	{"node-dns is restarted", nil, func(p *twins, _ *rand.Rand) { p.Run("systemctl", "restart", "node-dns.service") }},
	{"node-dns is killed", nil, func(p *twins, _ *rand.Rand) { p.Run("systemctl", "kill", "--signal=KILL", "node-dns.service") }},
}

// edit runs a shell command that writes its input, text, to resolv.conf.
func (p *twins) edit(command, text string) {
	p.t.Helper()
	p.edited = true
	p.rewriting("{ " + command + "; } <<'END'\n" + text + "END")
}

// rewriting runs a shell command that writes resolv.conf on both machines, and makes the owner of
// resolv.conf write it again. The command may write through a link that node-dns has replaced on
// one of the machines: from then on only the content must be the same.
func (p *twins) rewriting(script string) {
	p.t.Helper()
	p.both(func(n *node) {
		n.Run("sh", "-c", script)
		if p.kind.rewrite != nil {
			p.kind.rewrite(n)
		}
	})
	p.replaced = p.replaced || p.form == linked
}

func mayStop(p *twins) bool { return !p.kind.onlyMigrates }

// ends are the ways in which node-dns stops serving. Each leaves it installed but not running.
var ends = []harmStep{
	{"a stop", mayStop, func(p *twins, _ *rand.Rand) { p.Run("systemctl", "disable", "--now", "node-dns.service") }},
	{"a power-off and a boot", mayStop, func(p *twins, _ *rand.Rand) {
		p.Run("systemctl", "disable", "node-dns.service")
		p.both((*node).reboot)
	}},
	{"a crash loop", mayStop, func(p *twins, _ *rand.Rand) {
		const program = "/usr/sbin/node-dns"
		p.Run("mv", program, program+".good")
		p.WriteFile(program, "#!/bin/sh\nexit 1\n", 0o755)
		p.Run("systemctl", "kill", "--signal=KILL", "node-dns.service")
		p.Await("systemd to try again and again", func() bool { return p.restarts() > 3 })
		p.awaitSame("in a crash loop")
		p.Run("systemctl", "disable", "--now", "node-dns.service")
		p.Run("mv", program+".good", program)
	}},
	{"an erase", mayStop, func(p *twins, _ *rand.Rand) {
		p.Run("rpm", "--erase", "node-dns")
		p.awaitSame("after an erase")
		p.Run("rpm", "--install", p.rpm)
	}},
	{undoStep, func(p *twins) bool { return p.kind.migrates }, func(p *twins, _ *rand.Rand) { p.Run("node-dns", "migrate", "--undo") }},
}

const undoStep = "migrate --undo"

// TestNoHarmManaged and TestNoHarmByHand make random changes to a host while node-dns runs, and end
// node-dns in each way. Afterwards the host must resolve like a host of the same kind with the same
// changes but without node-dns. While node-dns runs, queries must go to the same nameserver as
// without it. 324 walks: -harm.walks=12 -timeout=6h.
func TestNoHarmManaged(t *testing.T) { walkHosts(t, true) }

func TestNoHarmByHand(t *testing.T) { walkHosts(t, false) }

// harmCell is a kind of host with one form of its resolv.conf.
type harmCell struct {
	kind hostKind
	form fileForm
}

func (c harmCell) String() string { return c.kind.name + ", " + string(c.form) }

func harmCells(managed bool) (cells []harmCell) {
	for _, kind := range hostKinds {
		for _, form := range kind.forms {
			if kind.manages == managed {
				cells = append(cells, harmCell{kind, form})
			}
		}
	}
	return cells
}

// rotated returns the cells in the order of a run with this seed. Each day's run starts with the
// cell after the first harmLeast of the day before, so that together they cover every cell.
func rotated(cells []harmCell, seed uint64) []harmCell {
	start := int(seed * harmLeast % uint64(len(cells)))
	return slices.Concat(cells[start:], cells[:start])
}

// random returns the walk's random numbers. They do not depend on the other cells.
func (c harmCell) random(seed uint64) *rand.Rand {
	hash := fnv.New64a()
	hash.Write([]byte(c.String()))
	return rand.New(rand.NewPCG(seed, hash.Sum64()))
}

func walkHosts(t *testing.T, managed bool) {
	begun := time.Now()
	seed := cmp.Or(*harmSeed, uint64(begun.Unix())/(24*60*60))
	t.Logf("seed %d", seed)
	cells := rotated(harmCells(managed), seed)
	for walk := range max(1, *harmWalks) * len(cells) {
		if *harmWalks == 0 && walk >= harmLeast && time.Since(begun) > *harmTime {
			return
		}
		cell, seed := cells[walk%len(cells)], seed+uint64(walk/len(cells))
		t.Run(fmt.Sprintf("%v/seed %d", cell, seed), func(t *testing.T) {
			t.Logf("to repeat: go test ./test/nspawn -run '^%s$' -harm.seed=%d -harm.walks=1 -harm.rounds=%d", strings.ReplaceAll(t.Name(), "/", "$/^"), seed, *harmRounds)
			walkHarm(t, cell, cell.random(seed))
		})
	}
}

// TestEachHostIsWalked: CI once ran the same steps for each kind of host in every run. The walks
// of successive days cover every kind and form, and each has its own random numbers.
func TestEachHostIsWalked(t *testing.T) {
	for _, managed := range []bool{true, false} {
		cells := harmCells(managed)
		played, numbers := map[string]bool{}, map[uint64]string{}
		const firstDay = 20000
		for day := range uint64(len(cells)+harmLeast-1) / harmLeast {
			order := rotated(cells, firstDay+day)
			if len(order) != len(cells) {
				t.Fatalf("got %d of %d cells", len(order), len(cells))
			}
			for _, cell := range order[:harmLeast] {
				played[cell.String()] = true
			}
			for _, cell := range order {
				number := cell.random(firstDay + day).Uint64()
				if other := numbers[number]; other != "" {
					t.Errorf("%v on day %d has the random numbers of %s", cell, day, other)
				}
				numbers[number] = fmt.Sprintf("%v on day %d", cell, day)
			}
		}
		if len(played) != len(cells) {
			t.Errorf("played %d of %d cells", len(played), len(cells))
		}
	}
}

func walkHarm(t *testing.T, cell harmCell, random *rand.Rand) {
	p := newTwins(t, cell)
	for range *harmRounds {
		p.round(pick(ends, p, random), random)
	}
}

// round starts node-dns, changes the host up to three times, and ends node-dns.
func (p *twins) round(end harmStep, random *rand.Rand) {
	p.t.Log("a start")
	switch {
	case end.name == undoStep && p.kind.kubelet:
		p.Run("node-dns", "migrate", "--apply", "--kubelet")
	case end.name == undoStep:
		p.Run("node-dns", "migrate", "--apply")
	default:
		p.Run("systemctl", "enable", "--now", "node-dns.service")
	}
	p.awaitServing("after a start")
	for range random.IntN(4) {
		change := pick(changes, p, random)
		p.t.Log(change.name)
		change.do(p, random)
		p.awaitServing("after: " + change.name + ":")
	}
	p.t.Log(end.name)
	end.do(p, random)
	p.awaitSame("after " + end.name)
}

// pick returns a random step that is possible on this host.
func pick(steps []harmStep, p *twins, random *rand.Rand) harmStep {
	for {
		if step := steps[random.IntN(len(steps))]; step.where == nil || step.where(p) {
			return step
		}
	}
}
