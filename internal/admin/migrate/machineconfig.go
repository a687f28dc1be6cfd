package migrate

import (
	"fmt"
	"net/url"
	"strings"
)

// doNothing stands in the place of a hook that is the machine config's: it can replace a file, and not take one away.
const doNothing = "#!/bin/sh\n# node-dns is this node's nameserver\n"

// machineConfig is one for OpenShift 4's machine-config operator: node-dns in place of resolv-prepender and CoreDNS, or of forcedns and dnsmasq. Of several with the
// same file or unit the one whose name sorts last counts.
func (h Host) machineConfig(role string, answers []corefileAnswer) string {
	var units, files strings.Builder
	unit := func(name string, fields string) { fmt.Fprintf(&units, "      - {name: %s, %s}\n", name, fields) }
	file := func(path string, mode int, content string) {
		// RFC 2397; a mode is decimal in JSON, and YAML 1.1 and 1.2 read 0644 differently.
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
		file("/etc/tmpfiles.d/node-dns-kubelet.conf", 0o644, "# The kubelet waits for it: "+kubeletWaits+"\nf "+prependerReady+"\n")
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
