package migrate

import (
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/nodeconfig"
)

const (
	resolvedUnit = "systemd-resolved.service"
	nsswitch     = "/etc/nsswitch.conf"
)

// systemdResolved listens at 127.0.0.53, where node-dns never does: it need not end. Its link in the place of resolv.conf is displaced as
// long as node-dns answers, as any file there.
func systemdResolved() origin {
	return origin{
		name:  "systemd-resolved",
		files: []string{nsswitch},
		units: []string{resolvedUnit},
		find: func(h Host) []Finding {
			unit, link := h.Units[resolvedUnit], h.State.ResolvConf.Link
			stub := strings.Contains(link, "/run/systemd/resolve/")
			if !unit.IsActive() && !stub {
				return nil
			}
			f := Finding{Origin: "systemd-resolved", What: "systemd-resolved with its stub listener (" + resolvedUnit + ")"}
			f.say(true, "%s is %s, %s", resolvedUnit, unit.Active, unit.File)
			f.say(stub, "/etc/resolv.conf is a link to %s", link)
			f.say(nssResolve(h), "%s has this host's programs ask it directly (resolve in hosts)", nsswitch)
			return []Finding{f}
		},
		steps: func(h Host) part {
			if h.Plan.Via == nodeconfig.ResolvConfResolved {
				return part{notes: []string{"systemd-resolved goes on at 127.0.0.53, and asks node-dns (resolvConf in /etc/node-dns/node-dns.yaml); it is restarted for that, on the way back too, and answers nobody for some 0.2 s"}}
			}
			p := part{notes: []string{"systemd-resolved goes on at 127.0.0.53, and has nothing to give up"}}
			if nssResolve(h) {
				p.notes = append(p.notes, "this host's programs ask systemd-resolved, and not what /etc/resolv.conf names: "+
					"resolvConf: resolved in /etc/node-dns/node-dns.yaml has it ask node-dns; pods ask node-dns either way")
			}
			return p
		},
	}
}

// nssResolve reports whether libc asks systemd-resolved without resolv.conf (nss-resolve(8)).
func nssResolve(h Host) bool {
	for line := range strings.Lines(string(h.Files[nsswitch].Data)) {
		line, _, _ = strings.Cut(line, "#")
		database, services, _ := strings.Cut(strings.TrimSpace(line), ":")
		if database == "hosts" {
			return slices.Contains(strings.Fields(services), "resolve")
		}
	}
	return false
}
