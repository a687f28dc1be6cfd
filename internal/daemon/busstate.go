package daemon

import (
	"github.com/node-dns/node-dns/internal/admin/dbusapi"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// wantedBus returns the settings made over D-Bus, as long as the configuration allows them.
func (f *follower) wantedBus(config nodeconfig.Config) dbusapi.State {
	state := *f.busState.Load()
	if config.DBus == nodeconfig.DBusDnsmasq || state.Same(dbusapi.State{}) {
		return state
	}
	f.log.Info("dropped the settings made over D-Bus", "dbus", string(config.DBus), "servers", journal.Few(state.Servers(), " "))
	f.keepBus(dbusapi.State{})
	return dbusapi.State{}
}

// keepBus stores the state and saves it for the next start.
func (f *follower) keepBus(state dbusapi.State) {
	f.busState.Store(&state)
	f.unkept = ""
	if err := state.Save(f.paths.bus); err != nil {
		f.unkept = err.Error()
	}
}

// loadBus loads the state that was set before a restart.
func (d *Daemon) loadBus() {
	state, err := dbusapi.Load(d.paths.bus)
	if err != nil {
		d.log.Warn("cannot restore the settings made over D-Bus", "error", err)
	}
	d.busState.Store(&state)
}
