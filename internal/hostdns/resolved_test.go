package hostdns

import "testing"

// TestResolvedStory is a node with systemd-resolved and no NetworkManager, whose link gets other nameservers while its
// resolv.conf is ours: nothing was captured then, until somebody restored the stub.
func TestResolvedStory(t *testing.T) {
	const (
		target  = "../run/systemd/resolve/stub-resolv.conf"
		uplinks = "/run/systemd/resolve/resolv.conf"
	)
	w := newTree(t, map[string]string{etcResolvConf: "-> " + target, "/run/systemd/resolve/stub-resolv.conf": stubText, uplinks: "nameserver 10.0.0.2\n"})
	w.step("the first run", Written, "10.0.0.2", stubOurs)
	w.put(uplinks, "nameserver 10.0.0.8\nnameserver 10.0.0.9\n")
	w.step("a lease is renewed", Kept, "10.0.0.8 10.0.0.9", stubOurs)
	w.put(uplinks, "nameserver "+nodeIP+"\nnameserver 10.0.0.8\n")
	w.step("systemd-resolved reads our resolv.conf", Kept, "10.0.0.8", stubOurs)
	w.put(uplinks, "# no links\n")
	w.step("carrier loss", Kept, "10.0.0.8", stubOurs)
	w.remove(uplinks)
	w.step("systemd-resolved is gone", Kept, "10.0.0.8", stubOurs)
	w.put(uplinks, "nameserver 10.0.0.2\n")
	w.silent = true
	w.step("the daemon dies", Restored, "10.0.0.2", stubText)
	if got := w.files()[etcResolvConf]; got != "-> "+target {
		t.Errorf("restored is %q", got)
	}
}
