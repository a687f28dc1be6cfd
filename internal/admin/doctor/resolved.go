package doctor

import (
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/resolvconf"
)

// checkResolved looks at systemd-resolved's stub: 127.0.0.53 is nothing that a pod can ask, and a resolv.conf that leads to it
// passes node-dns by.
func checkResolved(s Snapshot) []Finding {
	unit, asked := s.Units[resolvedUnit]
	state := s.Host.State
	stub := leadsToStub(state.ResolvConf.Link, state.ResolvConf.Data)
	active := unit.IsActive()
	switch {
	case stub && asked && !active:
		return []Finding{fail("/etc/resolv.conf leads to systemd-resolved, which does not run", "systemctl start systemd-resolved; or node-dns, which takes the file over")}
	case stub && state.PointsResolved():
		return fine("systemd-resolved is asked at its stub, and asks this node")
	case stub && s.Status != nil && s.Status.ResolvConf.Hold == "":
		return []Finding{warn("/etc/resolv.conf leads to systemd-resolved's stub: this host's own programs ask it, and not node-dns", "origin-dns-dispatcher plan says why; resolvConf: resolved in node-dns.yaml has systemd-resolved ask this node")}
	case active:
		return fine("systemd-resolved runs, and /etc/resolv.conf does not lead to it")
	case stub:
		return fine("/etc/resolv.conf leads to systemd-resolved's stub")
	}
	return nil
}

// leadsToStub reports whether libc asks systemd-resolved.
func leadsToStub(link string, text []byte) bool {
	if strings.Contains(link, "/run/systemd/resolve/") && !strings.HasSuffix(link, "/resolve/resolv.conf") {
		return true
	}
	for _, addr := range resolvconf.Parse(text).Nameservers() {
		if addr.String() == "127.0.0.53" || addr.String() == "127.0.0.54" {
			return true
		}
	}
	return false
}

// checkNSSwitch judges the line hosts: of nsswitch.conf(5), by which libc comes to ask nameservers at all. Where there is none
// glibc asks them.
func checkNSSwitch(s Snapshot) []Finding {
	const path = "/etc/nsswitch.conf"
	if s.NSSwitch.Err != nil {
		return []Finding{warn(path+" cannot be read: "+s.NSSwitch.Err.Error(), "ls -l "+path)}
	}
	services, given := hostsServices(s.NSSwitch.Data)
	if !given {
		return nil
	}
	line := "hosts: " + strings.Join(services, " ")
	dns, resolve := slices.Index(services, "dns"), slices.Index(services, "resolve")
	active := s.Units[resolvedUnit].IsActive()
	switch {
	case dns < 0 && !(resolve >= 0 && active):
		return []Finding{fail(path+" has this host's programs ask no nameserver ("+line+")", "put dns behind files")}
	case resolve >= 0 && (dns < 0 || resolve < dns) && active && !s.Host.State.PointsResolved():
		return []Finding{warn(path+" has this host's programs ask systemd-resolved before /etc/resolv.conf counts ("+line+")",
			"resolvConf: resolved in node-dns.yaml has systemd-resolved ask node-dns; or take resolve out of the line; pods ask node-dns either way")}
	}
	return fine("%s: %s", path, line)
}

// hostsServices are those of the database hosts, without the actions in brackets.
func hostsServices(text []byte) (services []string, given bool) {
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		database, rest, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(database) != "hosts" {
			continue
		}
		for {
			before, after, ok := strings.Cut(rest, "[")
			services = append(services, strings.Fields(before)...)
			if !ok {
				return services, true
			}
			_, rest, _ = strings.Cut(after, "]")
		}
	}
	return nil, false
}
