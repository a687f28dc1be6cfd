package daemon

import (
	"context"
	"path/filepath"
	"sync"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/dbusapi"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/policy"
)

// newBus returns the daemon's D-Bus service. It returns nil if Root is not / and Config.Bus is
// empty: names on the system bus belong to the machine, and a daemon with another root is not the
// machine's nameserver.
func (d *Daemon) newBus() *dbusapi.Service {
	if filepath.Join("/", d.config.Root) != "/" && d.config.Bus == "" {
		return nil
	}
	return dbusapi.New(dbusapi.Config{
		Address:    d.config.Bus,
		Version:    d.config.Version,
		State:      func() dbusapi.State { return *d.busState.Load() },
		Set:        d.setOverBus,
		FlushCache: d.view.FlushAll,
		Reload:     d.reloadOverBus,
		Counters:   d.view.Counters,
		Loops:      d.loopAddresses,
		Status:     d.view.Status,
		Log:        d.log,
		Panics:     &d.panics,
	})
}

// busNames returns the bus names for a dbus setting.
func busNames(wanted nodeconfig.DBus) []string {
	switch wanted {
	case nodeconfig.DBusDnsmasq:
		return []string{dbusapi.DnsmasqName, dbusapi.ManagerName}
	case nodeconfig.DBusNodeDNS:
		return []string{dbusapi.ManagerName}
	}
	return nil
}

// serveBus owns the configured names, and changes them when the configuration changes.
func (d *Daemon) serveBus(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := d.ownNames(ctx, d.policy().Config.DBus); err != nil {
			return err
		}
	}
	return nil
}

// ownNames owns names until ctx ends or the configuration changes.
func (d *Daemon) ownNames(ctx context.Context, wanted nodeconfig.DBus) error {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() {
		defer cancel()
		for d.policy().Config.DBus == wanted {
			select {
			case <-ctx.Done():
				return
			case <-d.rebus:
			}
		}
	})
	if names := busNames(wanted); d.bus != nil && len(names) > 0 {
		return d.bus.Run(ctx, names...)
	}
	<-ctx.Done()
	return nil
}

func (d *Daemon) busStatus(s *policy.Policy) *control.Bus {
	if d.bus == nil || len(busNames(s.Config.DBus)) == 0 {
		return nil
	}
	state := *d.busState.Load()
	names, problem := d.bus.Names()
	return &control.Bus{
		Error: problem, Names: names,
		Servers: state.Servers(), ServersBy: state.RulesBy.String(),
		Options: state.Options.Words(), OptionsBy: state.OptionsBy.String(),
	}
}

// loopAddresses returns addresses without ports, like dnsmasq.
func (d *Daemon) loopAddresses() []string {
	addresses := []string{}
	for server := range d.loops.Looping() {
		addresses = append(addresses, server.Addr.Addr().String())
	}
	return addresses
}
