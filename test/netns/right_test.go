package netns

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const (
	resolvConf     = "/etc/resolv.conf"
	upstreamsFile  = "/etc/dnsmasq.d/origin-upstream-dns.conf"
	nodeResolvConf = "/etc/origin/node/resolv.conf"

	networkManagerResolvConf = "/run/NetworkManager/resolv.conf" // NetworkManager's own list
)

// steady is how long a node must be right without a break.
const steady = 150 * time.Millisecond

// right is how a node must be: what all files say, and who answers.
type right struct {
	Upstreams []string // in order
	Routes    []string // "corp.test/10.88.0.53"
	Node      string   // what resolv.conf names; "": nodeIP
	Search    []string // the host's own, after cluster.local; nil: example.com
	AnySearch bool     // whatever follows cluster.local
	Answers   string   // which nameserver who.test must come from; "": the first upstream
}

// await waits until the node is right, and stays so for a while: longer than the daemon gathers what happens before it acts.
func (n *node) await(want right) {
	n.t.Helper()
	if want.Node == "" {
		want.Node = nodeIP
	}
	if want.Search == nil {
		want.Search = []string{"example.com"}
	}
	if want.Answers == "" {
		want.Answers = want.Upstreams[0]
	}
	var wrong string
	defer func() {
		if wrong != "" {
			n.t.Errorf("the node is not right: %s", wrong)
		}
	}()
	var since time.Time
	n.l.Await("the node to be right", func() bool {
		if wrong = n.wrong(want); wrong != "" {
			since = time.Time{}
		} else if since.IsZero() {
			since = time.Now()
		}
		return wrong == "" && time.Since(since) > steady
	})
}

// wrong says the first thing that is not as it must be, or "".
func (n *node) wrong(want right) string {
	var servers, nameservers strings.Builder
	for _, addr := range want.Upstreams {
		fmt.Fprintf(&servers, "server=%s\n", addr)
		fmt.Fprintf(&nameservers, "nameserver %s\n", addr)
	}
	for _, route := range want.Routes {
		fmt.Fprintf(&servers, "server=/%s\n", route)
	}
	for path, text := range map[string]string{upstreamsFile: servers.String(), nodeResolvConf: nameservers.String()} {
		if got := n.l.ReadFile(path); got != text {
			return fmt.Sprintf("%s is %q, want %q", path, got, text)
		}
	}
	if w := wrongResolvConf(n.l.ReadFile(resolvConf), want); w != "" {
		return w
	}
	if left := temporary(); len(left) > 0 {
		return fmt.Sprintf("temporary files %v", left)
	}
	if got := ask(want.Node, "who.test."); got != want.Answers {
		return fmt.Sprintf("who.test is answered by %s, want %s", got, want.Answers)
	}
	return ""
}

func wrongResolvConf(text string, want right) string {
	var watermarks int
	var nameservers, search []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "#") && strings.Contains(line, "99-origin-dns.sh"):
			watermarks++
		case strings.HasPrefix(line, "nameserver"):
			nameservers = append(nameservers, words[1:]...)
		case strings.HasPrefix(line, "search"):
			search = words[1:]
		}
	}
	wantSearch := append([]string{"cluster.local"}, want.Search...)
	if want.AnySearch && len(search) > 0 {
		wantSearch = append(wantSearch[:1], search[1:]...)
	}
	if watermarks != 1 || !slices.Equal(nameservers, []string{want.Node}) || !slices.Equal(search, wantSearch) {
		return fmt.Sprintf("resolv.conf is %q, want the watermark once, nameserver %s, search %v", text, want.Node, wantSearch)
	}
	return ""
}

// temporary are files that a run of the dispatcher left.
func temporary() []string {
	var all []string
	for _, dir := range []string{"/etc", "/etc/dnsmasq.d", "/etc/origin/node", "/var/lib/node-dns", "/run", "/run/node-dns"} {
		entries, _ := os.ReadDir(dir) // one that does not exist holds nothing
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), "tmp") {
				all = append(all, dir+"/"+e.Name())
			}
		}
	}
	return all
}

// ask is what the nameserver at addr says of a TXT name; what went wrong, in parentheses, otherwise.
func ask(addr, name string) string {
	client := dns.Client{Timeout: 2 * time.Second}
	query := new(dns.Msg).SetQuestion(name, dns.TypeTXT)
	response, _, err := client.Exchange(query, net.JoinHostPort(addr, "53"))
	if err != nil {
		return "(" + err.Error() + ")"
	}
	if len(response.Answer) == 1 {
		if txt, ok := response.Answer[0].(*dns.TXT); ok {
			return strings.Join(txt.Txt, " ")
		}
	}
	return "(" + dns.RcodeToString[response.Rcode] + ")"
}

func isIPv6(addr string) bool { return strings.Contains(addr, ":") }
