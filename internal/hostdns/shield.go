package hostdns

import (
	"context"
	"errors"
	"time"

	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/sys/dbusconn"
)

// Snippet keeps NetworkManager from writing /etc/resolv.conf. It stands in /run and only while resolv.conf names this node:
// one in /usr or /etc would leave a node whose node-dns does not run without DNS.
const Snippet = `# node-dns points /etc/resolv.conf at this node while it runs; NetworkManager is not to write that file meanwhile.
# origin-dns-dispatcher made this, and "origin-dns-dispatcher restore" removes it. Your own dns=none or rc-manager=,
# in NetworkManager.conf or a file of /etc/NetworkManager/conf.d, is respected instead.
[main]
rc-manager=unmanaged
`

// shieldSteps keep NetworkManager from writing the resolv.conf that names this node, wherever it would, and nobody else
// has decided who does. Where it does not run, or what it reads is not known, nothing is changed.
func shieldSteps(s State) []Step {
	if s.NetworkManager == nil || s.NetworkManagerSays == nil {
		return nil
	}
	if s.NetworkManagerSays.Decision() != "" {
		return unshieldSteps(s)
	}
	if !s.isShielded() && !s.networkManagerWrites() {
		return nil // systemd-resolved does, say, or the file is immutable
	}
	step, changes := writeStep(s.Paths.Snippet, s.Snippet, []byte(Snippet))
	if !changes && s.networkManagerWrites() && s.Snippet.Err == nil { // it was not told, or did not hear
		step, changes = Step{Path: s.Paths.Snippet, Action: WriteFile, Data: s.Snippet.Data, Mode: s.Snippet.Mode, Before: s.Snippet}, true
	}
	step.Tell = networkManager
	if !changes {
		return nil
	}
	return []Step{step}
}

// isShielded reports whether our Snippet keeps NetworkManager from writing resolv.conf: the file is there, or NetworkManager still obeys a
// removed one. On a busy host a run may end after the removal and before the reload, or the reload may time out.
func (s State) isShielded() bool {
	manager, says := s.NetworkManager, s.NetworkManagerSays
	return s.Snippet.Exists || manager != nil && manager.RcManager == "unmanaged" && manager.Mode != "none" && manager.Mode != "systemd-resolved" &&
		says != nil && says.RcManager.File == "" // no other file says unmanaged
}

// unshieldSteps give resolv.conf back to NetworkManager, which writes it at once.
func unshieldSteps(s State) []Step {
	if !s.isShielded() {
		return nil
	}
	return []Step{{Path: s.Paths.Snippet, Action: Remove, Before: s.Snippet, Tell: networkManager}}
}

// networkManagerWrites reports whether NetworkManager itself writes resolv.conf, by what is in force. With rc-manager=resolvconf it tells
// resolvconf(8). Where resolv.conf is a link to resolvconf's file, or was before ours replaced it, NetworkManager does not overwrite ours, and our
// Snippet would keep the file behind the link from what a VPN or an admin changes.
func (s State) networkManagerWrites() bool {
	if s.NetworkManager.RcManager == "resolvconf" && s.leadsToResolvconf() {
		return false
	}
	return s.NetworkManager.Mode != "none" && s.NetworkManager.RcManager != "unmanaged" && s.NetworkManager.RcManager != "immutable"
}

// tellTimeout is how long NetworkManager may take to read its configuration. It needs some 10 ms, or, stopped by SIGSTOP,
// for ever.
const tellTimeout = 500 * time.Millisecond

// TellNetworkManager has NetworkManager read its configuration, over the system bus. One that does not run reads it when
// it starts.
func TellNetworkManager(ctx context.Context) error {
	return askOfNetworkManager(ctx, (*nm.Client).Reload)
}

// RenewResolvConf makes NetworkManager write resolv.conf again, over the system bus. One that does not run writes it when it starts.
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
	a.Progress.is("telling %s to read its configuration", whom)
	tell, usual := a.TellNetworkManager, TellNetworkManager
	if whom == systemdResolved {
		tell, usual = a.TellResolved, TellResolved
	}
	if tell == nil {
		tell = usual
	}
	return tell(ctx)
}

// besides says who else writes resolv.conf because somebody has decided so; "": nobody.
func besides(s State) string {
	if s.NetworkManager == nil || s.NetworkManagerSays == nil || !s.networkManagerWrites() || s.NetworkManagerSays.Decision() == "" {
		return ""
	}
	return "NetworkManager writes /etc/resolv.conf too: " + s.NetworkManagerSays.Decision()
}
