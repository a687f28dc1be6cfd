package nm

import (
	"context"
	"fmt"

	gonm "github.com/Wifx/gonetworkmanager/v3"
	"github.com/godbus/dbus/v5"
)

// reloadConf is Reload's flag for NetworkManager.conf and the snippets beside it
// (NM_MANAGER_RELOAD_FLAG_CONF). The flags for resolv.conf and for the DNS plugin
// are left out: a changed rc-manager has NetworkManager do what it says anyway, and
// where nothing changed there is no "dns-change" event, which would run the hook
// again.
const reloadConf uint32 = 0x01

// Reload has NetworkManager read its configuration files again, and returns when it
// has done what they say: with another rc-manager it has let go of
// /etc/resolv.conf, or has written it. Only root may ask for that.
//
// Errors match ErrNotRunning, ErrNoBus, ErrAnswer or ctx.Err(). Files with a syntax
// error are no error here: NetworkManager keeps what it had, and logs it.
func (c *Client) Reload(ctx context.Context) error {
	if err := c.reload(ctx, reloadConf); err != nil {
		return fmt.Errorf("telling NetworkManager to read its configuration: %w", err)
	}
	return nil
}

// reloadDNS is Reload's flag for /etc/resolv.conf (NM_MANAGER_RELOAD_FLAG_DNS_RC).
const reloadDNS uint32 = 0x02

// WriteResolvConf makes NetworkManager write /etc/resolv.conf again, as `nmcli general reload dns-rc` does, and returns when it has done so.
// Only root may ask for that. Errors are those of Reload.
func (c *Client) WriteResolvConf(ctx context.Context) error {
	if err := c.reload(ctx, reloadDNS); err != nil {
		return fmt.Errorf("telling NetworkManager to write resolv.conf: %w", err)
	}
	return nil
}

func (c *Client) reload(ctx context.Context, flags uint32) error {
	object := c.conn.Object(gonm.NetworkManagerInterface, gonm.NetworkManagerObjectPath)
	call := object.CallWithContext(ctx, gonm.NetworkManagerInterface+".Reload", dbus.FlagNoAutoStart, flags)
	return asError(ctx, call.Err)
}
