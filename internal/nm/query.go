package nm

import (
	"context"
	"fmt"

	gonm "github.com/Wifx/gonetworkmanager/v3"
)

// Snapshot reads NetworkManager's state. It asks only about interfaces with nameservers: in one
// round trip, and three more for every 16 interfaces. Each round trip ends with ctx.
//
// Errors match ErrNotRunning, ErrNoBus, ErrAnswer or ctx.Err(). With an error the Snapshot is zero,
// because a part of the nameservers would look like all of them.
func (c *Client) Snapshot(ctx context.Context) (Snapshot, error) {
	s, err := c.snapshot(ctx)
	if err != nil {
		return Snapshot{}, fmt.Errorf("asking NetworkManager: %w", err)
	}
	return s, nil
}

func (c *Client) snapshot(ctx context.Context) (Snapshot, error) {
	var s Snapshot
	var general round
	// NetworkManager's other properties list every interface of the host.
	general.add(c.askProperty(ctx, gonm.NetworkManagerObjectPath, gonm.NetworkManagerPropertyVersion), func(body []any) {
		s.Version = printable(property[string](body), maxName)
	})
	general.add(c.askProperty(ctx, gonm.NetworkManagerObjectPath, gonm.NetworkManagerPropertyState), func(body []any) {
		s.State = stateName(property[uint32](body))
	})
	dns, err := c.ask(ctx, gonm.DnsManagerObjectPath, getAll, gonm.DnsManagerInterface).answerAll(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	if err := general.wait(ctx); err != nil {
		return Snapshot{}, err
	}
	s.Mode = printable(get[string](dns, gonm.DnsManagerPropertyMode), maxName)
	s.RcManager = printable(get[string](dns, gonm.DnsManagerPropertyRcManager), maxName)
	if s.Configs, err = decodeConfigs(dns); err != nil {
		return Snapshot{}, err
	}
	if err := c.addDevices(ctx, s.Configs); err != nil {
		return Snapshot{}, err
	}
	return s, nil
}
