package hostdns

import (
	"context"
	"errors"
	"time"

	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/sys/dbusconn"
)

// Snippet keeps NetworkManager from writing /etc/resolv.conf. It is in /run, and only while
// resolv.conf names this node. In /usr or /etc it would leave a node without DNS whenever node-dns
// does not run.
const Snippet = `# While node-dns answers, /etc/resolv.conf names this node, and this file stops NetworkManager from overwriting it.
# origin-dns-dispatcher writes this file, and "origin-dns-dispatcher restore" removes it. If you set dns=none or
# rc-manager= in NetworkManager.conf or in a file of /etc/NetworkManager/conf.d, your setting applies instead.
[main]
rc-manager=unmanaged
`

// shieldSteps stop NetworkManager from writing the resolv.conf that names this node, if it would
// and no admin has decided who writes it. If NetworkManager does not run, or its configuration is
// unknown, they change nothing.
func shieldSteps(s *State) []Step {
	if s.NetworkManager == nil || s.NetworkManagerSays == nil {
		return nil
	}
	if s.NetworkManagerSays.Decision() != "" {
		return unshieldSteps(s)
	}
	if !s.isShielded() && !s.networkManagerWrites() {
		return nil // for example, systemd-resolved writes it, or the file is immutable
	}
	steps := writeSteps(s.Paths.Snippet, s.Snippet, []byte(Snippet))
	if len(steps) == 0 && s.networkManagerWrites() && s.Snippet.Err == nil { // NetworkManager was not notified, or did not react
		steps = []Step{{Path: s.Paths.Snippet, Action: WriteFile, Data: s.Snippet.Data, Mode: s.Snippet.Mode, Before: s.Snippet}}
	}
	return telling(networkManager, steps)
}

// isShielded reports whether our Snippet keeps NetworkManager from writing resolv.conf. Either the
// file exists, or NetworkManager still follows a removed one: on a busy host a run may end between
// the removal and the reload, or the reload may time out.
func (s *State) isShielded() bool {
	manager, says := s.NetworkManager, s.NetworkManagerSays
	return s.Snippet.Exists || manager != nil && manager.RcManager == "unmanaged" && manager.Mode != "none" && manager.Mode != "systemd-resolved" &&
		says != nil && says.RcManager.File == "" // no other file says unmanaged
}

// unshieldSteps let NetworkManager write resolv.conf again, which it does at once.
func unshieldSteps(s *State) []Step {
	if !s.isShielded() {
		return nil
	}
	return []Step{{Path: s.Paths.Snippet, Action: Remove, Before: s.Snippet, Tell: networkManager}}
}

// networkManagerWrites reports whether NetworkManager itself writes resolv.conf, by its active
// settings. With rc-manager=resolvconf it calls resolvconf(8). If resolv.conf is a link to
// resolvconf's file, or was before ours replaced it, NetworkManager does not overwrite ours. Our
// Snippet would then keep changes by a VPN or an admin out of the file behind the link.
func (s *State) networkManagerWrites() bool {
	if s.NetworkManager.RcManager == "resolvconf" && s.leadsToResolvconf() {
		return false
	}
	return nm.WritesResolvConf(s.NetworkManager.Mode, s.NetworkManager.RcManager) && !s.IsMounted
}

// tellTimeout is the deadline for NetworkManager's reload. It takes about 10 ms, or forever if
// NetworkManager was stopped by SIGSTOP.
const tellTimeout = 500 * time.Millisecond

// TellNetworkManager makes NetworkManager reload its configuration over the system bus. If it does
// not run, it reads the configuration when it starts.
func TellNetworkManager(ctx context.Context) error {
	return askOfNetworkManager(ctx, (*nm.Client).Reload)
}

// RenewResolvConf makes NetworkManager write resolv.conf again, over the system bus. If it does not
// run, it writes the file when it starts.
func RenewResolvConf(ctx context.Context) error {
	return askOfNetworkManager(ctx, (*nm.Client).WriteResolvConf)
}

func askOfNetworkManager(ctx context.Context, what func(*nm.Client, context.Context) error) error {
	err := dbusconn.Retry(ctx, tellTimeout, lookReserve, func(ctx context.Context) error {
		client, err := nm.Dial(ctx)
		if err != nil {
			return err
		}
		defer client.Close()
		return what(client, ctx)
	})
	if errors.Is(err, nm.ErrNoBus) || errors.Is(err, nm.ErrNotRunning) {
		return nil
	}
	return err
}

func (a Applier) tell(ctx context.Context, whom program) error {
	a.Progress.is("making %s reload its configuration", whom)
	tell, usual := a.TellNetworkManager, TellNetworkManager
	if whom == systemdResolved {
		tell, usual = a.TellResolved, TellResolved
	}
	if tell == nil {
		tell = usual
	}
	return tell(ctx)
}

// otherWriter names another program that writes resolv.conf by an admin's decision, or returns "".
func otherWriter(s *State) string {
	if s.NetworkManager == nil || s.NetworkManagerSays == nil || !s.networkManagerWrites() || s.NetworkManagerSays.Decision() == "" {
		return ""
	}
	return "NetworkManager writes /etc/resolv.conf too: " + s.NetworkManagerSays.Decision()
}
