package cockpit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// page is the path of the page itself, as in the frame of Cockpit's shell.
const page = "/cockpit/@localhost/node-dns/index.html"

// TestPage runs through the features of the page in one browser, on one node.
func TestPage(t *testing.T) {
	n := newNode(t)
	b := startBrowser(t, n.lan)
	b.resize(1280, 900, "light")
	b.open(n.startCockpit("root", "9090") + page)

	b.awaitText("state", "DNS works")
	b.awaitText("doctor", "checked at")
	b.awaitText("servers", ns1, ns2, "NetworkManager eth0")
	n.checkLookups(b)
	n.checkQueries(b)
	n.checkCache(b)
	n.checkOutage(b)
	n.checkLayout(b)
	n.checkRestart(b)
	b.checkComplaints()
	n.checkClosed(b)
	n.checkGuest(b)
	n.checkShell(b)
}

// checkClosed checks that the programs of a closed page end.
func (n *node) checkClosed(b *browser) {
	n.t.Helper()
	if !n.hasPrograms() {
		n.t.Error("an open page runs no program")
	}
	b.open("about:blank")
	n.Await("the programs of the page to end", func() bool { return !n.hasPrograms() })
}

// hasPrograms reports whether programs of a visible page are running.
func (n *node) hasPrograms() bool {
	_, err := n.Try("pgrep", "-f", "node-dns status|journalctl.*MESSAGE_ID")
	return err == nil
}

// checkLookups looks up ordinary and hostile names.
func (n *node) checkLookups(b *browser) {
	n.t.Helper()
	look := func(name, qtype string, parts ...string) {
		n.t.Helper()
		b.enter("lookup-name", name)
		b.enter("lookup-type", qtype)
		b.click("#lookup-form [type=submit]")
		b.awaitText("lookup", parts...)
	}
	look("shop.site.example", "", "shop.site.example. found", "192.0.2.80", "upstream nameserver, set by NetworkManager eth0", "not cached")
	look("shop.site.example", "", "from the cache")
	look("www", "A", "www.site.example. found", "192.0.2.80") // by the search list
	look("missing.site.example.", "A", "missing.site.example. does not exist (NXDOMAIN)")
	b.picture("lookup")

	// Hostile records and names are shown as text.
	look("evil.site.example.", "TXT", `"<img src=x onerror=alert(1)>"`, `\027[2J`)
	look(hostileName+".", "A", hostileName+". found", "192.0.2.66")
	look("<img src=x onerror=alert(1)>", "A", `expected a name`, "<img src=x onerror=alert(1)>")
	look("a\x1b[2J\u202e.example", "A", `expected a name`)
	var text string
	if b.eval("document.body.innerText", &text); strings.ContainsAny(text, "\x1b\u202e") {
		n.t.Errorf("control characters are on the page: %q", text)
	}
	var images int
	if b.eval("document.images.length", &images); images != 0 {
		n.t.Errorf("%d images", images)
	}
}

// checkQueries checks live queries and the query log.
func (n *node) checkQueries(b *browser) {
	n.t.Helper()
	b.enter("queries-name", "site.example")
	b.click("#queries-watch")
	b.awaitText("queries-watch", "Stop")
	n.Await("a query to be shown", func() bool {
		n.lan.Run("dig", "+tries=1", "@"+nodeIP, "www.site.example")
		return strings.Contains(b.text("queries"), "www.site.example.")
	})
	b.awaitText("queries", router, "NOERROR")
	b.click("#queries-watch")
	b.awaitText("queries-watch", "Watch the next 100")
	for _, state := range []bool{true, false} {
		b.click("#log-queries")
		n.Await(fmt.Sprintf("the query log to be %v", state), func() bool {
			var got struct {
				On bool `json:"on"`
			}
			out := n.Run("node-dns", "log-queries", "-o", "json")
			return json.Unmarshal([]byte(out), &got) == nil && got.On == state
		})
		b.awaitText("message", map[bool]string{true: "Query log is on", false: "Query log is off"}[state])
	}
}

// checkCache flushes a name, then everything.
func (n *node) checkCache(b *browser) {
	n.t.Helper()
	b.enter("flush-name", "www.site.example")
	b.click("#flush-form [type=submit]")
	b.awaitText("message", "removed from the cache")
	b.enter("flush-part", "all")
	b.click("#flush-form [type=submit]")
	n.Await("an empty cache", func() bool {
		var stats struct {
			Entries int `json:"entries"`
		}
		return json.Unmarshal([]byte(n.Run("node-dns", "cache", "stats", "-o", "json")), &stats) == nil && stats.Entries == 0
	})
}

// checkOutage stops one nameserver, then both, and starts them again.
func (n *node) checkOutage(b *browser) {
	n.t.Helper()
	n.second.SetFaults(dnstest.Faults{Delay: 50 * time.Millisecond}) // the first one is preferred, so its silence is noticed
	n.first.Down()
	n.askUntil(b, "DNS works, with problems", "Upstream nameserver "+ns1)
	b.awaitText("servers", "down for")
	b.awaitText("events", "upstream down", ns1)
	b.click("#check")
	b.awaitText("doctor", "upstream "+ns1, "Fix:")
	b.picture("degraded")
	n.second.Down()
	n.askUntil(b, "No upstream nameserver answers", ns2)
	n.second.SetFaults(dnstest.Faults{})
	n.bringUp(n.first, n.second)
	n.askUntil(b, "DNS works\n")
	b.awaitText("events", "upstream up")
}

// askUntil sends queries for missing names until the page's state contains these parts.
func (n *node) askUntil(b *browser, parts ...string) {
	n.t.Helper()
	n.askWhile(fmt.Sprintf("the state to be %q", parts), func() bool {
		state := b.text("state")
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(state, part) })
	})
}

// askWhile sends queries for new names until ok. They go to the faster nameserver.
func (n *node) askWhile(what string, ok func() bool) {
	n.t.Helper()
	n.Await(what, func() bool {
		argv := []string{"dig", "+tries=1", "+time=1", "@" + nodeIP}
		for range 8 {
			n.asked++
			argv = append(argv, fmt.Sprintf("n%d.site.example", n.asked))
		}
		_, _ = n.lan.Try(argv...)
		return ok()
	})
}

// checkLayout checks the layout at three widths, light and dark.
func (n *node) checkLayout(b *browser) {
	n.t.Helper()
	b.eval("document.querySelectorAll('details').forEach((d) => { d.open = true; })", nil)
	for _, width := range []int{360, 768, 1280} {
		for _, style := range []string{"light", "dark"} {
			b.resize(width, 900, style)
			n.Await("the page to be "+style, func() (isDone bool) { // the page learns it with its next frame
				b.eval(fmt.Sprintf(`document.documentElement.classList.contains("pf-v5-theme-dark") === %v`, style == "dark"), &isDone)
				return isDone
			})
			var wide []string
			b.eval(`(document.documentElement.scrollWidth <= innerWidth) ? [] : [...document.querySelectorAll("body *")].
				filter((e) => e.getBoundingClientRect().right > innerWidth).map((e) => e.tagName + "#" + e.id + "." + e.className)`, &wide)
			if len(wide) > 0 {
				n.t.Errorf("at %d pixels the page scrolls sideways: %v", width, wide)
			}
			b.picture(fmt.Sprintf("%s-%d", style, width))
		}
	}
	b.resize(1280, 900, "light")
	if unnamed := b.unnamed(); len(unnamed) > 0 {
		n.t.Errorf("a screen reader has no name for %v", unnamed)
	}
}

// checkRestart restarts node-dns, stops and masks it outside the page, and starts it again.
func (n *node) checkRestart(b *browser) {
	n.t.Helper()
	pid := func() string { return n.Run("systemctl", "show", "--property=MainPID", "--value", "node-dns.service") }
	before := pid()
	b.click("#restart")
	b.click("#ask-restart [value=restart]")
	b.awaitText("message", "node-dns has restarted")
	if pid() == before {
		n.t.Error("node-dns has not restarted")
	}
	b.awaitText("state", "DNS works\n")
	n.Run("systemctl", "stop", "node-dns.service")
	b.awaitText("state", "node-dns is stopped")
	b.awaitText("doctor", "node-dns is not running", "Fix: systemctl start node-dns")
	b.picture("stopped")
	n.Run("systemctl", "mask", "--runtime", "node-dns.service")
	b.awaitText("state", "node-dns is masked", "systemctl unmask node-dns")
	var isShown bool
	if b.eval(`document.getElementById("start").checkVisibility()`, &isShown); isShown {
		n.t.Error("a masked unit has a button that starts it")
	}
	n.Run("systemctl", "unmask", "--runtime", "node-dns.service")
	b.awaitText("state", "node-dns is stopped")
	b.eval(`document.getElementById("start").focus()`, nil)
	b.click("#start")
	b.awaitText("state", "DNS works")
	var focused string
	if b.eval("document.activeElement.tagName", &focused); focused != "MAIN" {
		n.t.Errorf("after a start, the focus is on %s", focused)
	}
}

// checkGuest checks that a user without administrative access sees whether DNS works, looks up
// names, and cannot change anything.
func (n *node) checkGuest(b *browser) {
	n.t.Helper()
	b.open(n.startCockpit("daemon", "9091") + page)
	b.awaitText("state", "DNS works")
	b.awaitText("access", "Limited access")
	b.enter("lookup-name", "www.site.example")
	b.click("#lookup-form [type=submit]")
	b.awaitText("lookup", "www.site.example. found")
	var enabled []string
	b.eval(`[...document.querySelectorAll("[data-needs=admin], #restart, #start")].filter((button) => !button.disabled).map((button) => button.id)`, &enabled)
	if len(enabled) > 0 {
		n.t.Errorf("a guest can press these buttons: %v", enabled)
	}
	b.picture("guest")
	b.checkComplaints()
}

// checkShell checks that Cockpit's shell has the page in its menu and shows it in a frame. While
// the shell shows another page, no program runs.
func (n *node) checkShell(b *browser) {
	n.t.Helper()
	b.resize(1280, 1104, "light")
	b.open(n.startCockpit("root", "9092") + "/node-dns")
	inFrame := func(id string) (text string) {
		b.eval(fmt.Sprintf(`[...document.querySelectorAll("iframe")].map((frame) => frame.contentDocument?.getElementById(%q)?.innerText ?? "").join()`, id), &text)
		return text
	}
	n.Await("the page in the shell's frame", func() bool { return strings.Contains(inFrame("state"), "DNS works") })
	b.awaitText("host-apps", "DNS")
	if *shots != "" {
		n.paintDocument(b, inFrame)
	}
	n.Await("the programs of the page to start", n.hasPrograms)
	b.click(`#host-apps a[href="/system/services"]`)
	n.Await("the programs of the hidden page to end", func() bool { return !n.hasPrograms() })
	b.click(`#host-apps a[href="/node-dns"]`)
	n.Await("the programs of the page to start again", n.hasPrograms)
}

// paintDocument makes the picture for docs/cockpit.png: one nameserver is down, and doctor reports
// it.
func (n *node) paintDocument(b *browser, inFrame func(id string) string) {
	n.t.Helper()
	n.second.Down()
	n.askWhile("the outage to be shown", func() bool { return strings.Contains(inFrame("state"), ns2) })
	b.eval(`{
		const page = document.querySelector("iframe[name*=node-dns]").contentDocument;
		page.getElementById("lookup-name").value = "shop.site.example";
		page.getElementById("lookup-form").requestSubmit();
	}`, nil)
	n.Await("the check and the lookup", func() bool {
		doctor := inFrame("doctor")
		return strings.Contains(doctor, "upstream "+ns2) && strings.Contains(doctor, "checked at") && strings.Contains(inFrame("lookup"), "found")
	})
	b.picture("shell")
}
