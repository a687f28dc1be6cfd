package vm

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/kubetest"
)

var (
	cuts    = flag.Int("vm.cuts", 8, "power cuts of TestPowerCuts")
	cutSeed = flag.Uint64("vm.seed", 1, "seed of TestPowerCuts")
)

// storm makes random changes to the inputs of files that node-dns keeps: NetworkManager's
// nameservers and search list, and the admin's configuration. A restart makes the daemon write the
// cluster's snapshot. The storm writes a configuration like editors do, so a truncated file would
// be a bug of node-dns.
const storm = `#!/bin/bash
RANDOM=$1
while :; do
	case $((RANDOM % 6)) in
	0) nmcli connection modify eth0 ipv4.dns "` + ns1 + ` 10.78.0.$((60 + RANDOM % 20))" ipv4.ignore-auto-dns yes; nmcli device reapply eth0 ;;
	1) nmcli connection modify eth0 ipv4.dns-search "s$((RANDOM % 9)).example"; nmcli device reapply eth0 ;;
	2) nmcli general reload dns-rc ;;
	3) printf 'serveStale: %d\n' $((60 + RANDOM % 9000)) >/etc/node-dns/new && sync /etc/node-dns/new && mv /etc/node-dns/new /etc/node-dns/node-dns.yaml && systemctl reload node-dns ;;
	4) origin-dns-dispatcher apply ;;
	5) systemctl restart node-dns ;;
	esac
done >/dev/null 2>&1
`

// TestPowerCuts cuts the power during a storm of changes, -vm.cuts times.
func TestPowerCuts(t *testing.T) {
	g := newServingNode(t, strictest(), true)
	api := g.serveAPI()
	g.Run("cat >/etc/node-dns/kubeconfig.new <<'END'\n" + string(api.Kubeconfig()) + "END\nchmod 600 /etc/node-dns/kubeconfig.new; mv /etc/node-dns/kubeconfig.new /etc/node-dns/kubeconfig")
	g.Await("the cluster's snapshot", "[ -s /var/cache/node-dns/cluster.snapshot ]")
	g.Run("cat >/root/storm <<'END'\n" + storm + "END\nchmod 755 /root/storm")
	g.Run("sync") // the packages' and the test's files: an early power cut may empty files that are not synced
	random := rand.New(rand.NewPCG(*cutSeed, 0))
	for cut := range *cuts {
		g.Run(fmt.Sprintf("systemd-run --quiet --unit=storm /root/storm %d", random.IntN(1<<15)))
		calm := make(chan struct{})
		changed := g.changeCluster(api, calm)
		pause := time.Second + time.Duration(random.Int64N(int64(15*time.Second)))
		time.Sleep(pause) // the time of the power cut is an input, not an assertion
		g.Cut()
		close(calm)
		<-changed
		g.Boot()
		t.Logf("cut %d, after %v", cut+1, pause.Round(time.Millisecond))
		g.checkAfterCut()
		if t.Failed() {
			return
		}
	}
	g.checkDenials()
}

// serveAPI runs the cluster's API on the LAN.
func (g *guest) serveAPI() *kubetest.Server {
	g.t.Helper()
	var api *kubetest.Server
	var err error
	if inside := g.lan.Inside(func() { api, err = kubetest.StartAt(router + ":6443") }); inside != nil || err != nil {
		g.t.Fatalf("serving the API: %v, %v", inside, err)
	}
	g.t.Cleanup(api.Close)
	api.Apply(kubetest.Shop("172.30.1.1"))
	return api
}

// changeCluster changes the cluster until calm is closed, so that each snapshot differs.
func (g *guest) changeCluster(api *kubetest.Server, calm <-chan struct{}) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-calm:
				return
			case <-time.After(200 * time.Millisecond):
				api.Apply(kubetest.Shop(fmt.Sprintf("172.30.1.%d", 1+i%250)))
			}
		}
	}()
	return done
}

// checkAfterCut checks that all our files are complete, no temporary files are left, names resolve,
// and the original can be restored.
func (g *guest) checkAfterCut() {
	g.t.Helper()
	g.awaitPointed()
	g.checkResolves()
	g.checkAnswers()
	for file := range strings.Lines(g.Run("ls /var/lib/node-dns/*.json")) {
		file = strings.TrimSpace(file)
		if text := g.Run("cat " + file); !json.Valid([]byte(text)) {
			g.t.Errorf("%s is incomplete:\n%s", file, text)
		}
	}
	if out, err := g.Try("node-dns check-config --quiet"); err != nil {
		g.t.Errorf("check-config: %v\n%s", err, out)
	}
	if out := g.Run("journalctl -b -o cat -u node-dns | grep -i 'snapshot' | grep -iE 'damaged|error|ignored' || true"); out != "" {
		g.t.Errorf("the snapshot did not survive:\n%s", out)
	}
	const served, refused = "serving the saved cluster state", "ignoring the saved cluster state"
	if out := g.Run("journalctl -b -o cat -u node-dns | grep -e '" + served + "' -e '" + refused + "' || true"); !strings.Contains(out, served) || strings.Contains(out, refused) {
		g.t.Errorf("the snapshot did not survive:\n%s", out)
	}
	for _, dir := range []string{"/etc", "/var/lib/node-dns", "/var/cache/node-dns"} {
		if out := g.Run("find " + dir + " -xdev -name '*node-dns-tmp*'"); out != "" {
			g.t.Errorf("temporary files are left:\n%s", out)
		}
	}
	g.Run("systemctl stop node-dns")
	// Compare with what NetworkManager would have written without node-dns, except for the time.
	back, own := g.resolvConf(), g.Run("cat /run/NetworkManager/resolv.conf")
	if back != own {
		g.t.Errorf("a stop restores\n%s\nwant NetworkManager's\n%s", back, own)
	}
	g.checkResolves()
	g.Run("systemctl start node-dns")
	g.awaitPointed()
}
