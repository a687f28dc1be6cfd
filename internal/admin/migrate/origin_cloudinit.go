package migrate

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/resolvconf"
)

// Files of cloud-init (22.4) on a node.
const (
	cloudSnippet  = "/etc/NetworkManager/conf.d/99-cloud-init.conf"
	cloudConfig   = "/etc/cloud/cloud.cfg"
	cloudConfigs  = "/etc/cloud/cloud.cfg.d"
	cloudUserData = "/var/lib/cloud/instance/cloud-config.txt"
	cloudOff      = "/etc/cloud/cloud-init.disabled"
	cloudOurs     = cloudConfigs + "/zz-node-dns.cfg" // sorts after all others; the last file wins
)

// cloudInit writes resolv.conf once per instance (manage_resolv_conf), or together with the network
// configuration if the cloud's data contain nameservers. After that, NetworkManager is configured
// not to write the file.
func cloudInit() origin {
	return origin{
		name:  "cloud-init",
		files: []string{cloudSnippet, cloudConfig, cloudConfigs + "/*.cfg", cloudUserData, cloudOff},
		find: func(h Host) []Finding {
			if h.Files[cloudOff].Exists || !h.Files[cloudConfig].Exists {
				return nil
			}
			f := Finding{Origin: "cloud-init", What: "cloud-init, which writes /etc/resolv.conf"}
			file := h.managesResolvConf()
			f.say(byCloudInit(h), "it wrote /etc/resolv.conf: %s", strings.Join(nameservers(h.State.ResolvConf.Data), " "))
			f.say(setsOnly(h.Files[cloudSnippet], dnsNone), "%s keeps NetworkManager from writing it (dns=none)", cloudSnippet)
			f.say(file != "", "%s sets manage_resolv_conf: true", file)
			f.say(managing(h.Files[cloudUserData].Data) == "true", "%s, this instance's user data, sets manage_resolv_conf: true", cloudUserData)
			if len(f.Evidence) == 0 {
				return nil
			}
			return []Finding{f}
		},
		steps: cloudInitSteps,
	}
}

func cloudInitSteps(h Host) part {
	var p part
	if h.managesResolvConf() != "" {
		p.before = append(p.before, writeStep(cloudOurs, "# node-dns manages /etc/resolv.conf: see node-dns migrate.\nmanage_resolv_conf: false\n", "cloud-init no longer writes /etc/resolv.conf, not even for a new instance"))
	}
	if managing(h.Files[cloudUserData].Data) == "true" {
		p.notes = append(p.notes, "no file on this node can override the user data: cloud-init has written the file for this instance and does so again for a new instance of this image; node-dns then overwrites it")
	}
	if setsOnly(h.Files[cloudSnippet], dnsNone) {
		p.notes = append(p.notes, cloudSnippet+" stays, because cloud-init would write it again; node-dns also needs NetworkManager not to write /etc/resolv.conf")
	}
	if dropped := h.dropped(); byCloudInit(h) && len(dropped) > 0 && len(h.State.Config.Upstreams) == 0 {
		all := nameservers(h.State.ResolvConf.Data)
		text, ok := withSetting(h.Files[ourConfig], "Nameservers that cloud-init had in /etc/resolv.conf", "upstreams", all)
		if !ok {
			p.refused = append(p.refused, fmt.Sprintf("/etc/resolv.conf names %s, but NetworkManager does not: set upstreams: [%s] in %s to keep them, or [] to drop them",
				strings.Join(dropped, ", "), strings.Join(all, ", "), ourConfig))
			return p
		}
		p.before = append(p.before, writeStep(ourConfig, text, "upstreams: ["+strings.Join(all, ", ")+"], which cloud-init sets and NetworkManager does not know"))
		for _, addr := range resolvconf.Parse(h.State.ResolvConf.Data).Nameservers() {
			p.upstreams = append(p.upstreams, nameserver.FromAddr(addr))
		}
	}
	return p
}

// byCloudInit reports whether resolv.conf says that cloud-init wrote it, in either of the two
// variants.
func byCloudInit(h Host) bool {
	text := string(h.State.ResolvConf.Data)
	return !hostdns.IsOurs([]byte(text)) && (strings.Contains(text, "cloud-init has written this file") || strings.Contains(text, "Created by cloud-init"))
}

var manageResolvConf = regexp.MustCompile(`(?mi)^manage_resolv_conf:\s*["']?(true|yes|on|1|false|no|off|0)["']?\s*(#.*)?$`)

// managing returns the value of manage_resolv_conf in a file of cloud-init: "true", "false", or ""
// if it is not set.
func managing(data []byte) string {
	m := manageResolvConf.FindSubmatch(data)
	switch {
	case m == nil:
		return ""
	case slices.Contains([]string{"true", "yes", "on", "1"}, strings.ToLower(string(m[1]))):
		return "true"
	}
	return "false"
}

// managesResolvConf returns the file that makes cloud-init write resolv.conf, or "" if there is
// none.
func (h Host) managesResolvConf() string {
	last := ""
	for _, path := range slices.Sorted(maps.Keys(h.Files)) { // cloud.cfg sorts before the files in cloud.cfg.d
		if path != cloudConfig && filepath.Dir(path) != cloudConfigs {
			continue
		}
		switch managing(h.Files[path].Data) {
		case "true":
			last = path
		case "false":
			last = ""
		}
	}
	return last
}

// dropped returns the nameservers in resolv.conf that node-dns would not use.
func (h Host) dropped() []string {
	return slices.DeleteFunc(nameservers(h.State.ResolvConf.Data), func(name string) bool {
		return slices.ContainsFunc(h.Plan.Selection.Set.Servers, func(server nameserver.Server) bool { return server.Addr.Addr().String() == name })
	})
}
