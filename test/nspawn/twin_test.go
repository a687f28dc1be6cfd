package nspawn

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/internal/test/rpmbuild"
)

// twins are two machines with the same configuration and the same changes. Only the first ever has
// node-dns. The second shows how the first must resolve names without it.
type twins struct {
	*node
	harmCell
	model *node
	rpm   string // the package's file on the node

	edited   bool // an admin has written resolv.conf
	replaced bool // an admin has written resolv.conf in place of a link
}

// newTwins boots two machines of one kind, and installs the package on the first.
func newTwins(t *testing.T, cell harmCell) *twins {
	t.Helper()
	l, kind := lab.New(t), cell.kind
	p := &twins{harmCell: cell, node: newNamedNode(t, l, "node", "lan0"), model: newNamedNode(t, l, "model", "lan1")}
	p.both(func(n *node) {
		n.lan.Run("ip", "address", "add", adminNS+"/24", "dev", n.bridge())
		n.lan.Run("ip", "address", "add", vpnNS+"/24", "dev", n.bridge())
		n.lan.Nameserver(adminNS)
		n.lan.Nameserver(vpnNS)
		if kind.prepare != nil {
			kind.prepare(n)
		}
		n.setForm(kind, cell.form)
		n.boot()
		if kind.complete != nil {
			kind.complete(n, cell.form)
		}
		n.awaitNames()
	})
	rpmbuild.Prepare(t, p.Container)
	p.rpm = rpmbuild.Put(p.Container, rpmbuild.Build(t, 1, rpmbuild.Systemd).Main)
	p.Run("rpm", "--install", p.rpm)
	p.awaitSame("after the installation")
	return p
}

// both does the same on both machines.
func (p *twins) both(do func(n *node)) {
	do(p.node)
	do(p.model)
}

// bridge returns the bridge of the node's LAN.
func (n *node) bridge() string {
	if strings.HasPrefix(n.lan.Name, "model") {
		return "lan1"
	}
	return "lan0"
}

// awaitSame waits until the node, where node-dns does not run, resolves like its model. It fails if
// that does not happen.
func (p *twins) awaitSame(when string) {
	p.t.Helper()
	p.settle()
	var got, want string
	if !lab.Poll(awaitLimit, func() bool {
		got, want = p.comparable(p.node.resolving()), p.comparable(p.model.resolving())
		return got == want
	}) {
		p.t.Fatalf("%s the host resolves differently than without node-dns (- without, + with):\n%s", when, cmp.Diff(want, got))
	}
}

// awaitServing waits until node-dns answers in place of the model's nameserver: with the same
// upstream and the same search list.
func (p *twins) awaitServing(when string) {
	p.t.Helper()
	p.awaitPointed()
	p.settle()
	// dnsmasq's servers win over those of a resolv.conf. NetworkManager's win over those of an
	// admin's file that it cannot write because it is a mount point.
	asks := !p.kind.asksDHCP && !(p.kind.onlyMigrates && p.edited) && !(p.form == mounted && p.kind.target != "")
	var got, want string
	if !lab.Poll(awaitLimit, func() bool {
		got, want = p.comparable(p.node.resolvingThrough(asks)), p.comparable(p.model.resolvingThrough(asks))
		return got == want && p.isPointed()
	}) {
		p.t.Fatalf("%s node-dns answers differently than the host's own nameservers (- without, + with):\n%s\nstatus:\n%s\nplan:\n%s", when, cmp.Diff(want, got),
			p.status(), first(p.Try("origin-dns-dispatcher", "plan")))
	}
}

// linkLine begins the line of resolving with the target of a link.
const linkLine = "link to "

// comparable returns text without what may differ: the order of the search list if the host has
// none, and whether resolv.conf is a link if an admin has written it in place of one.
func (p *twins) comparable(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if list, ok := strings.CutPrefix(line, "search "); ok && p.kind.shuffles {
			line = "search " + strings.Join(slices.Sorted(strings.FieldsSeq(list)), " ")
		}
		if !p.replaced || !strings.HasPrefix(line, linkLine) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

func first(text string, _ error) string { return text }

// settle waits until NetworkManager and the hook have nothing left to do on either machine.
func (p *twins) settle() {
	p.t.Helper()
	p.both(func(n *node) {
		if n.property("NetworkManager.service", "ActiveState") == "active" {
			n.Run("nmcli", "--wait", "10", "general", "status") // the answer comes after all earlier requests to NetworkManager
			n.Await("the events", func() bool { return n.property("NetworkManager-dispatcher.service", "ActiveState") == "inactive" })
		}
	})
	if p.property("node-dns.service", "ActiveState") == "active" {
		p.awaitApplied()
	}
}

// resolving describes how the host resolves names: the kind of file that resolv.conf is, and all
// lines that libc reads.
func (n *node) resolving() string {
	return first(n.Try("sh", "-c", `to=$(readlink `+resolvConf+`) && echo "`+linkLine+`$to"; grep -v '^[#;]' `+resolvConf+` | grep .; grep -q " `+resolvConf+` " /proc/self/mountinfo && echo mounted`))
}

// resolvingThrough returns the host's search list and options and, if asks is set, the nameserver
// that receives its queries.
func (n *node) resolvingThrough(asks bool) string {
	file := resolvconf.Parse([]byte(first(n.Try("cat", resolvConf))))
	search := file.Search()
	if len(search) > 0 && search[0] == "cluster.local" {
		search = search[1:]
	}
	var who string
	if asks {
		who, _ = n.Try("dig", "+short", "+tries=1", "+timeout=2", "who.test", "TXT")
	}
	var options []string
	for line := range strings.Lines(string(file.Bytes())) {
		if strings.HasPrefix(line, "options") {
			options = append(options, strings.TrimSpace(line))
		}
	}
	return fmt.Sprintf("asks %s\nsearch %s\n%v\n", strings.TrimSpace(who), strings.Join(search, " "), options)
}
