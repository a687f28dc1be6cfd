package nm

import (
	"context"
	"errors"
	"testing"

	gonm "github.com/Wifx/gonetworkmanager/v3"
	"github.com/godbus/dbus/v5"
)

// manager is NetworkManager's own object. It records the flags of each Reload and returns answer.
type manager struct {
	flags  chan uint32
	answer *dbus.Error
	hang   chan struct{} // delays the answer until it is closed; nil does not
}

func (m manager) Reload(flags uint32) *dbus.Error {
	m.flags <- flags
	if m.hang != nil {
		<-m.hang
	}
	return m.answer
}

func TestReload(t *testing.T) {
	denied := dbus.NewError("org.freedesktop.NetworkManager.PermissionDenied", []any{"Not authorized to reload configuration"})
	hang := make(chan struct{})
	for _, test := range []struct {
		name    string
		manager manager
		ctx     func(*testing.T) context.Context
		want    error
	}{
		{name: "done"},
		{name: "denied", manager: manager{answer: denied}, want: ErrAnswer},
		{name: "hangs", manager: manager{hang: hang}, ctx: soon, want: context.DeadlineExceeded},
	} {
		t.Run(test.name, func(t *testing.T) {
			startBus(t)
			service := startTestService(t, simpleHost())
			t.Cleanup(func() {
				if test.manager.hang != nil {
					close(test.manager.hang)
				}
			})
			test.manager.flags = make(chan uint32, 1)
			if err := service.conn.Export(test.manager, base, gonm.NetworkManagerInterface); err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			if test.ctx != nil {
				ctx = test.ctx(t)
			}
			if err := dial(t).Reload(ctx); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
				t.Errorf("%v, want %v", err, test.want)
			}
			if flags := <-test.manager.flags; flags != 1 {
				t.Errorf("got flags %#x, want only NM_MANAGER_RELOAD_FLAG_CONF", flags)
			}
			if test.ctx != nil {
				ctx = test.ctx(t)
			}
			if err := dial(t).WriteResolvConf(ctx); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
				t.Errorf("%v, want %v", err, test.want)
			}
			if flags := <-test.manager.flags; flags != 2 {
				t.Errorf("got flags %#x, want only NM_MANAGER_RELOAD_FLAG_DNS_RC", flags)
			}
		})
	}
	t.Run("not running", func(t *testing.T) {
		startBus(t)
		if err := dial(t).Reload(t.Context()); !errors.Is(err, ErrNotRunning) {
			t.Error(err)
		}
	})
}
