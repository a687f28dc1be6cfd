package nm

import (
	"context"
	"fmt"

	gonm "github.com/Wifx/gonetworkmanager/v3"
	"github.com/godbus/dbus/v5"
)

// reloadConf is Reload's flag for NetworkManager.conf and its snippets
// (NM_MANAGER_RELOAD_FLAG_CONF). The flags for resolv.conf and the DNS plugin are not set:
// NetworkManager applies a changed rc-manager anyway. Without a change there is no "dns-change"
// event, which would run the hook again.
const reloadConf uint32 = 0x01

// Reload makes NetworkManager read its configuration files again, and returns when they are in
// effect: with a changed rc-manager, NetworkManager then no longer writes /etc/resolv.conf, or has
// written it. It needs root.
//
// Errors match ErrNotRunning, ErrNoBus, ErrAnswer or ctx.Err(). A syntax error in the files is not
// reported: NetworkManager logs it and keeps its old settings.
func (c *Client) Reload(ctx context.Context) error {
	if err := c.reload(ctx, reloadConf); err != nil {
		return fmt.Errorf("reloading NetworkManager's configuration: %w", err)
	}
	return nil
}

// reloadDNS is Reload's flag for /etc/resolv.conf (NM_MANAGER_RELOAD_FLAG_DNS_RC).
const reloadDNS uint32 = 0x02

// WriteResolvConf makes NetworkManager write /etc/resolv.conf again, like `nmcli general reload
// dns-rc`, and returns when that is done. It needs root. Its errors are those of Reload.
func (c *Client) WriteResolvConf(ctx context.Context) error {
	if err := c.reload(ctx, reloadDNS); err != nil {
		return fmt.Errorf("making NetworkManager write resolv.conf: %w", err)
	}
	return nil
}

func (c *Client) reload(ctx context.Context, flags uint32) error {
	object := c.conn.Object(gonm.NetworkManagerInterface, gonm.NetworkManagerObjectPath)
	call := object.CallWithContext(ctx, gonm.NetworkManagerInterface+".Reload", dbus.FlagNoAutoStart, flags)
	return asError(ctx, call.Err)
}
