package migrate

import (
	"bufio"
	"bytes"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// corefileAnswer is a name that OpenShift 4's CoreDNS on the node answers by itself: api, api-int and *.apps of the cluster.
type corefileAnswer struct {
	Name string
	Wild bool // and all below it; not the name itself
	Addr netip.Addr
}

// line is what dnsmasq's files say for it. An address= is for a name and all below it; nobody asks for the bare one.
func (a corefileAnswer) line() string {
	if a.Wild {
		return fmt.Sprintf("address=/%s/%v", a.Name, a.Addr)
	}
	return fmt.Sprintf("host-record=%s,%v", a.Name, a.Addr)
}

// The lines of CoreDNS's template plugin, as runtimecfg writes them.
var (
	corefileMatch  = regexp.MustCompile(`^match\s+"?([^"]+?)"?$`)
	corefileResult = regexp.MustCompile(`(?i)^answer\s+".*\sin\s.*\s(\S+)"$`)
)

// parseCorefile reads of a Corefile the template blocks that answer with an address, and whether a hosts block names nodes.
func parseCorefile(data []byte) (answers []corefileAnswer, hosts bool) {
	var match string
	inHosts := false
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		first, _, _ := strings.Cut(line, " ")
		_, err := netip.ParseAddr(first)
		switch m := corefileMatch.FindStringSubmatch(line); {
		case strings.HasPrefix(line, "template "):
			match = ""
		case strings.HasPrefix(line, "hosts") && strings.HasSuffix(line, "{"):
			inHosts = true
		case line == "}":
			inHosts = false
		case inHosts && err == nil:
			hosts = true
		case m != nil:
			match = m[1]
		}
		m := corefileResult.FindStringSubmatch(line)
		if m == nil || match == "" {
			continue
		}
		a := corefileAnswer{Wild: strings.HasPrefix(strings.TrimPrefix(match, "^"), ".*")}
		a.Name = plainName(match)
		if a.Addr, err = netip.ParseAddr(m[1]); err == nil && a.Name != "" && !slices.Contains(answers, a) {
			answers = append(answers, a)
		}
	}
	return answers, hosts
}

// plainName is the domain that a regular expression is for: `.*[.]apps.example.com`, `^api-int.example.com`. "": it is another one.
func plainName(expression string) string {
	name := strings.TrimPrefix(expression, "^")
	name = strings.TrimPrefix(name, ".*")
	name = strings.NewReplacer(`[.]`, ".", `\.`, ".").Replace(strings.TrimSuffix(name, "$"))
	name = strings.Trim(name, ".")
	if strings.ContainsAny(name, `*+?[](){}|\^$ `) {
		return ""
	}
	return strings.ToLower(name)
}
