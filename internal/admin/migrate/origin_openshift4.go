package migrate

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/resolvconf"
)

// Files of OpenShift 4's machine config (templates/common/on-prem and cloud-platform-alt-dns in the
// machine-config-operator, 4.6 to 4.20).
const (
	prependerPath    = "on-prem-resolv-prepender.path"
	prependerUnit    = "on-prem-resolv-prepender.service"
	prependerHook    = "/etc/NetworkManager/dispatcher.d/30-resolv-prepender"
	prependerScript  = "/usr/local/bin/resolv-prepender.sh"
	prependerEnv     = "/run/resolv-prepender/env"
	prependerReady   = "/run/resolv-prepender-kni-conf-done"
	prependerDropIn  = "/etc/systemd/resolved.conf.d/60-kni.conf"
	kubeletUnit      = "kubelet.service"
	kubeletWaits     = "/etc/systemd/system/kubelet.service.d/10-mco-on-prem-wait-resolv.conf"
	corednsPod       = "/etc/kubernetes/manifests/coredns.yaml"
	corednsFile      = "/etc/coredns/Corefile"
	corednsProgram   = "coredns"
	apiServerPod     = "/etc/kubernetes/manifests/kube-apiserver-pod.yaml"
	machineConfigNow = "/etc/machine-config-daemon/currentconfig"
)

// openshift4 is the setup of OpenShift 4 and OKD: resolv-prepender or NetworkManager's global DNS,
// which put the node's address into resolv.conf, and the static CoreDNS pod that listens there. All
// files belong to the machine config. Its daemon marks a node as degraded if a file differs, and
// stops updating the node.
func openshift4() origin {
	return origin{
		name: "openshift4",
		files: []string{
			prependerHook, prependerScript, prependerEnv, prependerDropIn, kubeletWaits, corednsPod, corednsFile, apiServerPod, machineConfigNow,
			"/etc/NetworkManager/conf.d/*.conf",
		},
		units: []string{prependerPath, prependerUnit},
		find:  findOpenshift4,
		steps: func(h Host) part {
			return part{
				told:    h.corednsHolders(),
				refused: []string{ownedByMachineConfig},
				owner:   openshift4Owner(h),
			}
		},
	}
}

// ownedByMachineConfig is the reason not to change anything on a node.
const ownedByMachineConfig = "this node's files are managed by its machine config: changing them here degrades the node, and the next update reverts them"

// globalDNS returns the NetworkManager file that sets nameservers for all domains
// ([global-dns-domain-*]), or "".
func (h Host) globalDNS() string {
	for path, file := range h.Files {
		if strings.HasPrefix(path, "/etc/NetworkManager/conf.d/") && slices.ContainsFunc(strings.Split(string(file.Data), "\n"), func(line string) bool {
			return strings.TrimSpace(line) == "[global-dns-domain-*]"
		}) {
			return path
		}
	}
	return ""
}

func (h Host) corednsHolders() []Holder {
	return h.holdersWhere(func(holder Holder) bool { return holder.Name == corednsProgram && holder.Addr.Port() == portDNS })
}

func (h Host) hasPrepender() bool {
	path, unit := h.Units[prependerPath], h.Units[prependerUnit]
	return path.Load == "loaded" || unit.Load == "loaded" || h.Files[prependerHook].Exists
}

func findOpenshift4(h Host) []Finding {
	global, prepender := h.globalDNS(), h.hasPrepender()
	if !prepender && (global == "" || !h.Files[corednsPod].Exists) {
		return nil
	}
	f := Finding{Origin: "openshift4", What: "NetworkManager's global DNS with CoreDNS (OpenShift 4)"}
	if prepender {
		f.What = "resolv-prepender with CoreDNS (OpenShift 4, OKD)"
	}
	unit := h.Units[prependerPath]
	f.say(unit.Load == "loaded", "%s is %s, %s: it writes /etc/resolv.conf after NetworkManager", prependerPath, unit.Active, unit.File)
	f.say(h.Files[prependerHook].Exists, "%s is NetworkManager's hook", prependerHook)
	f.say(h.Files[prependerEnv].Exists, "%s holds the last input of the hook", prependerEnv)
	f.say(strings.Contains(resolvconf.Parse(h.State.ResolvConf.Data).Owner(), "KNI resolv prepender"), "it wrote /etc/resolv.conf: %s", strings.Join(nameservers(h.State.ResolvConf.Data), " "))
	f.say(h.Files[prependerDropIn].Exists, "%s makes systemd-resolved ask this node", prependerDropIn)
	f.say(global != "", "%s sets nameservers for all domains ([global-dns-domain-*]); it can stay: node-dns never uses itself as an upstream", global)
	f.say(h.Files[corednsPod].Exists, "%s is a static pod", corednsPod)
	f.Evidence = append(f.Evidence, heldLines(h.corednsHolders())...)
	answers, _ := parseCorefile(h.Files[corednsFile].Data)
	for _, a := range answers {
		name := a.Name
		if a.Wild {
			name = "*." + name
		}
		f.say(true, "it answers %s with %v (%s)", name, a.Addr, corednsFile)
	}
	f.say(h.Files[kubeletWaits].Exists, "%s does not start before %s exists (%s)", kubeletUnit, prependerReady, kubeletWaits)
	f.say(h.Files[machineConfigNow].Exists, "the machine-config daemon manages this node (%s)", machineConfigNow)
	return []Finding{f}
}

// openshift4Owner returns the steps with one machine config that adds node-dns and removes the old
// setup, so that a node has either one.
func openshift4Owner(h Host) []string {
	role := "worker"
	if h.Files[apiServerPod].Exists {
		role = "master"
	}
	owner := []string{
		"add node-dns to the nodes' image, or install its package on them; it changes nothing until it is enabled",
	}
	answers, hosts := parseCorefile(h.Files[corednsFile].Data)
	if h.Files[corednsPod].Exists && len(answers) == 0 {
		owner = append(owner, "CoreDNS answers the cluster's api, api-int and *.apps, but "+corednsFile+" does not show them here: add them to the file below for /etc/dnsmasq.d (host-record=, address=)")
	}
	if hosts {
		owner = append(owner, "CoreDNS also answers the nodes' names, from the hosts block of "+corednsFile+": make sure that the site's DNS knows them, or add a file for addn-hosts=")
	}
	return append(owner,
		"oc apply -f - with the following text; each node is drained and restarts with node-dns:\n"+h.machineConfig(role, answers),
		"oc wait machineconfigpool/"+role+" --for=condition=Updated --timeout=2h; to undo: oc delete machineconfig 99-"+role+"-node-dns",
	)
}

// localAnswers returns CoreDNS's own records in dnsmasq syntax.
func localAnswers(answers []corefileAnswer) string {
	var b strings.Builder
	b.WriteString("# The cluster's own names, which CoreDNS on the node answered.\n")
	for _, a := range answers {
		if a.Wild { // address= also matches the name itself, which no client queries
			fmt.Fprintf(&b, "address=/%s/%v\n", a.Name, a.Addr)
		} else {
			fmt.Fprintf(&b, "host-record=%s,%v\n", a.Name, a.Addr)
		}
	}
	return b.String()
}

// corefileAnswer is a name that OpenShift 4's CoreDNS on the node answers itself: api, api-int and
// *.apps of the cluster.
type corefileAnswer struct {
	Name string
	Wild bool // everything below the name, but not the name itself
	Addr netip.Addr
}

// Lines of CoreDNS's template plugin, as written by runtimecfg.
var (
	corefileMatch  = regexp.MustCompile(`^match\s+"?([^"]+?)"?$`)
	corefileResult = regexp.MustCompile(`(?i)^answer\s+".*\sin\s.*\s(\S+)"$`)
)

// parseCorefile reads the template blocks that answer with an address, and reports whether a hosts
// block names nodes.
func parseCorefile(data []byte) (answers []corefileAnswer, hosts bool) {
	var match string
	inHosts := false
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
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
		a := corefileAnswer{Name: plainName(match), Wild: strings.HasPrefix(strings.TrimPrefix(match, "^"), ".*")}
		if a.Addr, err = netip.ParseAddr(m[1]); err == nil && a.Name != "" && !slices.Contains(answers, a) {
			answers = append(answers, a)
		}
	}
	return answers, hosts
}

// plainName returns the domain that a regular expression matches, such as `.*[.]apps.example.com`
// or `^api-int.example.com`. It returns "" for other expressions.
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

// doNothing replaces a hook of the machine config, which can replace a file but not remove it.
const doNothing = "#!/bin/sh\n# node-dns is this node's nameserver\n"

// machineConfig returns a machine config that replaces resolv-prepender and CoreDNS, or forcedns
// and dnsmasq. If several contain the same file, the last one by name wins.
func (h Host) machineConfig(role string, answers []corefileAnswer) string {
	var units, files strings.Builder
	unit := func(name string, fields string) { fmt.Fprintf(&units, "      - {name: %s, %s}\n", name, fields) }
	file := func(path string, mode int, content string) {
		// data URL (RFC 2397). The mode is decimal as in JSON, because YAML 1.1 and 1.2 read 0644
		// differently.
		fmt.Fprintf(&files, "      - {path: %s, mode: %d, overwrite: true, contents: {source: 'data:,%s'}}\n", path, mode, url.PathEscape(content))
	}
	unit(daemonUnit, "enabled: true")
	if h.Units[prependerPath].Load == "loaded" {
		unit(prependerPath, "enabled: false, mask: true")
	}
	if h.Files[prependerHook].Exists {
		file(prependerHook, 0o755, doNothing)
	}
	if h.hasForcedns() {
		unit(dnsmasqUnit, "enabled: false, mask: true")
		file(forcednsHook, 0o755, doNothing)
		file(singleNodeConf, 0o644, "# NetworkManager writes /etc/resolv.conf while node-dns does not run\n")
	}
	if h.Files[kubeletWaits].Exists {
		file("/etc/tmpfiles.d/node-dns-kubelet.conf", 0o644, "# The kubelet waits for this file: "+kubeletWaits+"\nf "+prependerReady+"\n")
	}
	if h.Files[prependerDropIn].Exists {
		file(prependerDropIn, 0o644, "")
	}
	if h.Files[corednsPod].Exists {
		file(corednsPod, 0o644, "")
		file("/etc/dnsmasq.d/openshift.conf", 0o644, localAnswers(answers))
	}
	return fmt.Sprintf(`apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 99-%s-node-dns
  labels: {machineconfiguration.openshift.io/role: %s}
spec:
  config:
    ignition: {version: 3.2.0}
    systemd:
      units:
%s    storage:
      files:
%s`, role, role, units.String(), files.String())
}
