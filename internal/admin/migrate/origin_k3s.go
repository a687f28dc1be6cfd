package migrate

import "strings"

// k3sResolvConf is what k3s and RKE2 give their kubelet where the host's nameservers are none that a pod can ask: with 8.8.8.8 in it.
var k3sResolvConfs = []string{"/var/lib/rancher/k3s/agent/etc/resolv.conf", "/var/lib/rancher/rke2/agent/etc/resolv.conf"}

// k3s looks at /etc/resolv.conf at its start, and never again: with node-dns it finds one that names this node.
func k3s() origin {
	return origin{
		name:  "k3s",
		files: k3sResolvConfs,
		find: func(h Host) []Finding {
			var all []Finding
			for _, path := range k3sResolvConfs {
				if f := h.Files[path]; f.Exists {
					all = append(all, Finding{
						Origin: "k3s", What: "a resolv.conf for pods that k3s or RKE2 made up (" + path + ")",
						Evidence: []string{"it names " + strings.Join(nameservers(f.Data), " ") + ", whatever this site's nameservers are"},
					})
				}
			}
			return all
		},
		steps: func(Host) part {
			return part{notes: []string{"pods with dnsPolicy Default, CoreDNS among them, keep those nameservers until k3s is started again behind node-dns, " +
				"which finds this node's address in /etc/resolv.conf then: systemctl restart k3s (k3s-agent, rke2-server, rke2-agent)"}}
		},
	}
}
