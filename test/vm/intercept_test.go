package vm

import (
	"strings"
)

// serviceDNS is the address of the cluster's DNS Service.
const serviceDNS = "10.96.0.10"

// interception checks that the confined helper brings queries for the cluster's DNS Service to the
// daemon: with a dummy link, and with IPVS, where the address is on kube-proxy's link. Both need
// modules that only this lane's kernel has.
func (g *guest) interception() {
	g.t.Helper()
	api := g.serveAPI()
	defer api.Close()
	g.Run("cat >/etc/node-dns/kubeconfig.new <<'END'\n" + string(api.Kubeconfig()) + "END\nchmod 600 /etc/node-dns/kubeconfig.new; mv /etc/node-dns/kubeconfig.new /etc/node-dns/kubeconfig")
	g.Run("cp /etc/node-dns/node-dns.yaml /root/node-dns.yaml; printf 'intercept: [" + serviceDNS + "]\n' >>/etc/node-dns/node-dns.yaml")
	g.lan.Run("ip", "route", "replace", serviceDNS+"/32", "via", nodeIP)
	intercepted := "node-dns status | grep -q '" + serviceDNS + " intercepted for'"
	g.Await("the helper to intercept", intercepted)
	g.checkIntercepted()
	if got := g.Run("ip -o -d link show node-dns"); !strings.Contains(got, "dummy") {
		g.t.Errorf("got the link %s", got)
	}
	pid := strings.TrimSpace(g.Run("systemctl show -p MainPID --value node-dns-intercept"))
	if got := g.domainOf(pid); g.confined && got != "node_dns_intercept_t" {
		g.t.Errorf("the helper runs as %s", got)
	}
	g.Run("kill -KILL " + pid)
	g.Await("systemd to restart the helper", "[ $(systemctl show -p MainPID --value node-dns-intercept) -gt 0 ] && [ $(systemctl show -p MainPID --value node-dns-intercept) != "+pid+" ]")
	g.Await("the next helper to intercept", intercepted)

	g.Run("systemctl stop node-dns-intercept.path node-dns-intercept && ip link delete node-dns")
	g.Run("ip link add kube-ipvs0 type dummy && ip address add " + serviceDNS + "/32 dev kube-ipvs0")
	g.Run("systemctl start node-dns-intercept.path")
	g.Await("the helper to translate", intercepted+" && nft list table inet node-dns | grep -q 'dnat ip to "+nodeIP+"'")
	g.checkIntercepted()
	g.Run("ip link delete kube-ipvs0")

	g.Run("cp /root/node-dns.yaml /etc/node-dns/node-dns.yaml; rm /etc/node-dns/kubeconfig; systemctl reload node-dns")
	g.Await("the helper to end", "[ $(systemctl show -p ActiveState --value node-dns-intercept) = inactive ] && ! ip link show node-dns")
	g.lan.Run("ip", "route", "del", serviceDNS+"/32")
}

// checkIntercepted checks that a client gets node-dns's answer at the Service's address.
func (g *guest) checkIntercepted() {
	g.t.Helper()
	for _, flag := range []string{"+notcp", "+tcp"} {
		g.l.Await("an answer at "+serviceDNS+" with "+flag, func() bool {
			out, err := g.lan.Try("dig", "+short", "+tries=1", "+timeout=5", flag, "@"+serviceDNS, "web.shop.svc.cluster.local")
			return err == nil && strings.TrimSpace(out) == "172.30.1.1"
		})
	}
}
