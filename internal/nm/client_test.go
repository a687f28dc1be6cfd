package nm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gonm "github.com/Wifx/gonetworkmanager/v3"
	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// dial returns a Client that is closed at the end of the test.
func dial(t *testing.T) *Client {
	t.Helper()
	c, err := Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// soon returns a context that ends before the test does.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func compareSnapshots(want, got Snapshot) string {
	return cmp.Diff(want, got,
		cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
		cmp.Comparer(func(a, b dnsname.Name) bool { return a == b }))
}

// simpleSnapshot is the Snapshot of simpleHost.
func simpleSnapshot() Snapshot {
	s := Snapshot{
		Version: "1.42.4", State: "connected", Mode: "none", RcManager: "unmanaged",
		Configs: []DNSConfig{
			config("eth0", 100, "10.77.0.53 10.77.0.54", "example.test"),
			config("eth0", 100, "fe80::53", ""), // with the zone that NetworkManager omits
		},
	}
	for i := range s.Configs {
		s.Configs[i].Connection = "Wired connection 1"
	}
	return s
}

// TestSnapshot changes one detail of simpleHost per row, and of the expected Snapshot.
func TestSnapshot(t *testing.T) {
	const active, device = base + "/ActiveConnection/2", base + "/Devices/2"
	noDevice := func(s *Snapshot) {
		for i := range s.Configs {
			s.Configs[i].Connection = ""
		}
	}
	tests := []struct {
		name   string
		change func(host)
		want   func(*Snapshot)
	}{{
		name: "dual stack",
	}, {
		name:   "connection that disappears during the read",
		change: func(h host) { delete(h, active) },
		want:   noDevice,
	}, {
		name:   "device that disappears during the read",
		change: func(h host) { delete(h[device], gonm.DeviceInterface) },
		want:   noDevice,
	}, {
		name: "device without an active connection",
		change: func(h host) {
			h.set(device, gonm.DeviceInterface, gonm.DevicePropertyActiveConnection, dbus.ObjectPath("/"))
		},
		want: noDevice,
	}, {
		name: "device without addresses",
		change: func(h host) {
			h.set(device, gonm.DeviceInterface, gonm.DevicePropertyIp4Config, dbus.ObjectPath("/"))
			delete(h[base+"/IP6Config/2"], gonm.IP6ConfigInterface)
		},
	}, {
		name: "unsafe names",
		change: func(h host) {
			h.set(active, gonm.ActiveConnectionInterface, gonm.ActiveConnectionPropertyId, "a\nb\x1b[2J")
			h.set(base, gonm.NetworkManagerInterface, gonm.NetworkManagerPropertyVersion, strings.Repeat("1", 300))
		},
		want: func(s *Snapshot) {
			s.Version = strings.Repeat("1", 255)
			s.Configs[0].Connection, s.Configs[1].Connection = "a�b�[2J", "a�b�[2J"
		},
	}, {
		name: "values of other types",
		change: func(h host) {
			h.set(base, gonm.NetworkManagerInterface, gonm.NetworkManagerPropertyVersion, int32(1))
			h.set(base, gonm.NetworkManagerInterface, gonm.NetworkManagerPropertyState, uint32(999))
			h.set(device, gonm.DeviceInterface, gonm.DevicePropertyActiveConnection, "none")
			h.set(gonm.DnsManagerObjectPath, gonm.DnsManagerInterface, gonm.DnsManagerPropertyMode, []string{"x"})
		},
		want: func(s *Snapshot) { noDevice(s); s.Version, s.Mode, s.State = "", "", "unknown" },
	}, {
		name: "no DNS configuration, as after carrier loss",
		change: func(h host) {
			h.set(gonm.DnsManagerObjectPath, gonm.DnsManagerInterface, gonm.DnsManagerPropertyConfiguration, []entry{})
		},
		want: func(s *Snapshot) { s.Configs = []DNSConfig{} },
	}, {
		name: "wildcard domain of one family, which DnsManager leaves out (1.42.4)",
		change: func(h host) {
			h.set(base+"/IP4Config/2", gonm.IP4ConfigInterface, gonm.IP4ConfigPropertySearches, []string{"example.test", "~"})
			h.set(base+"/IP6Config/2", gonm.IP6ConfigInterface, gonm.IP6ConfigPropertySearches, []string{"example.test", "~x"})
		},
		want: func(s *Snapshot) {
			s.Configs[0].Domains = append(s.Configs[0].Domains, Domain{Name: dnsname.Root(), RoutingOnly: true})
		},
	}, {
		name: "wildcard domain that DnsManager does not leave out",
		change: func(h host) {
			configs := h[gonm.DnsManagerObjectPath][gonm.DnsManagerInterface]["Configuration"].Value().([]entry)
			configs[1]["domains"] = dbus.MakeVariant([]string{"~."})
			h.set(base+"/IP6Config/2", gonm.IP6ConfigInterface, gonm.IP6ConfigPropertySearches, []string{"~."})
		},
		want: func(s *Snapshot) { s.Configs[1].Domains = []Domain{{Name: dnsname.Root(), RoutingOnly: true}} },
	}, {
		name: "profile nameservers come first (1.42: strings)",
		change: func(h host) {
			h.setProfile(device, propertiesOf("dns-data", []string{"10.77.0.54"}, "dns", []uint32{1}), propertiesOf("dns-data", []string{"fe80::53"}))
		},
		want: func(s *Snapshot) {
			s.Configs[0].Nameservers, s.Configs[0].Static = serversOf("10.77.0.54 10.77.0.53"), serversOf("10.77.0.54")
			s.Configs[1].Static = s.Configs[1].Nameservers
		},
	}, {
		name: "profile nameservers come first (earlier: bytes)",
		change: func(h host) {
			addr := netip.MustParseAddr("10.77.0.54").As4()
			v6 := netip.MustParseAddr("fe80::53").As16()
			h.setProfile(device, propertiesOf("dns", []uint32{binary.NativeEndian.Uint32(addr[:])}), propertiesOf("dns", [][]byte{v6[:], {1, 2, 3}}))
		},
		want: func(s *Snapshot) {
			s.Configs[0].Nameservers, s.Configs[0].Static = serversOf("10.77.0.54 10.77.0.53"), serversOf("10.77.0.54")
			s.Configs[1].Static = s.Configs[1].Nameservers
		},
	}, {
		name: "profile with inactive nameservers or other types",
		change: func(h host) {
			h.setProfile(device, propertiesOf("dns-data", []string{"192.0.2.1", "junk"}), propertiesOf("dns-data", "fe80::53", "dns", "x"))
		},
	}, {
		name: "VPN, whose tunnel has a profile in memory",
		change: func(h host) {
			h.set(gonm.DnsManagerObjectPath, gonm.DnsManagerInterface, gonm.DnsManagerPropertyConfiguration, []entry{entry(propertiesOf(
				"nameservers", []string{"10.8.0.1"}, "interface", "tun0", "priority", int32(50), "vpn", true))})
			h[base+"/Devices/3"] = map[string]properties{gonm.DeviceInterface: deviceProperties("tun0", base+"/ActiveConnection/9", "/", "/")}
			h[base+"/ActiveConnection/9"] = map[string]properties{gonm.ActiveConnectionInterface: propertiesOf(gonm.ActiveConnectionPropertyId, "tun0")}
		},
		want: func(s *Snapshot) {
			s.Configs = []DNSConfig{vpn("tun0", 50, "10.8.0.1", "")}
			s.Configs[0].Connection = "tun0"
		},
	}, {
		name: "global configuration, which no device has",
		change: func(h host) {
			h.set(gonm.DnsManagerObjectPath, gonm.DnsManagerInterface, gonm.DnsManagerPropertyConfiguration, []entry{entry(propertiesOf(
				"nameservers", []string{"10.5.0.1"}))})
		},
		want: func(s *Snapshot) { s.Configs = []DNSConfig{global("10.5.0.1", "")}; s.Configs[0].Priority = 0 },
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			startBus(t)
			h, want := simpleHost(), simpleSnapshot()
			if tt.change != nil {
				tt.change(h)
			}
			if tt.want != nil {
				tt.want(&want)
			}
			startTestService(t, h)
			got, err := dial(t).Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := compareSnapshots(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestSnapshotOfWrongTypes: a wrong type in data that decides where queries go is an error.
func TestSnapshotOfWrongTypes(t *testing.T) {
	tests := []struct {
		name          string
		configuration any
		want          string // part of the error's text
	}{
		{"text", "10.0.0.2", `Configuration has type "s"`},
		{"list of texts", []string{"10.0.0.2"}, `Configuration has type "as"`},
		{"nameservers as a string", []entry{entry(propertiesOf("nameservers", "10.0.0.2"))}, `nameservers has type "s"`},
		{"nameservers as numbers", []entry{entry(propertiesOf("nameservers", []uint32{1}))}, `nameservers has type "au"`},
		{"priority as a string", []entry{entry(propertiesOf("priority", "100"))}, `priority has type "s"`},
		{"interface as a number", []entry{entry(propertiesOf("interface", uint32(2)))}, `interface has type "u"`},
		{"domains as a string", []entry{entry(propertiesOf("domains", "a.test"))}, `domains has type "s"`},
		{"vpn as a number", []entry{entry(propertiesOf("vpn", int32(1)))}, `vpn has type "i"`},
		{"65 configurations", slices.Repeat([]entry{{}}, 65), "65 DNS configurations"},
		{"9 MiB", strings.Repeat("x", 9<<20), "too long"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			startBus(t)
			h := simpleHost()
			h.set(gonm.DnsManagerObjectPath, gonm.DnsManagerInterface, gonm.DnsManagerPropertyConfiguration, tt.configuration)
			startTestService(t, h)
			s, err := dial(t).Snapshot(t.Context())
			if !errors.Is(err, ErrAnswer) || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("got %v, want %v with %q", err, ErrAnswer, tt.want)
			}
			if diff := compareSnapshots(Snapshot{}, s); diff != "" {
				t.Errorf("got a Snapshot with an error:\n%s", diff)
			}
		})
	}
}

// TestSnapshotOfManyDevices: every interface of a configuration is found, and no others are asked
// about: a node has an interface for each pod. The bus refuses calls if 128 are unanswered.
func TestSnapshotOfManyDevices(t *testing.T) {
	startBus(t)
	h := simpleHost()
	var configs []entry
	for i := range maxList {
		iface := fmt.Sprintf("eth%d", i)
		device, active := base+dbus.ObjectPath(fmt.Sprintf("/Devices/1%d", i)), base+dbus.ObjectPath(fmt.Sprintf("/ActiveConnection/1%d", i))
		configs = append(configs, entry(propertiesOf("nameservers", []string{"10.77.0.53"}, "interface", iface, "vpn", false)))
		h[device] = map[string]properties{gonm.DeviceInterface: deviceProperties(iface, active, base+"/IP4Config/2", base+"/IP6Config/2")}
		h[active] = map[string]properties{gonm.ActiveConnectionInterface: propertiesOf(gonm.ActiveConnectionPropertyId, "System "+iface)}
	}
	delete(h, base+"/Devices/2")
	h.set(gonm.DnsManagerObjectPath, gonm.DnsManagerInterface, gonm.DnsManagerPropertyConfiguration, configs)
	h[base+"/Devices/3"] = map[string]properties{gonm.DeviceInterface: deviceProperties("veth0", base+"/ActiveConnection/3", base+"/IP4Config/2", base+"/IP6Config/2")}
	var finds atomic.Int32
	var atOnce sync.WaitGroup
	atOnce.Add(maxDevices)
	startTestService(t, h).setOnAsk(func(path dbus.ObjectPath) {
		switch {
		case path == base+"/Devices/3":
			t.Error("asked about an interface without nameservers")
		case path == find && finds.Add(1) <= maxDevices:
			atOnce.Done()
			atOnce.Wait()
		}
	})
	s, err := dial(t).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Configs) != maxList || finds.Load() != maxList {
		t.Errorf("got %d configurations and %d searches for a device", len(s.Configs), finds.Load())
	}
	for i, c := range s.Configs {
		if want := fmt.Sprintf("System eth%d", i); c.Connection != want {
			t.Errorf("configuration %d is %+v, want %s", i, c, want)
		}
	}
}

// TestSnapshotRoundTrips: all questions of a round are sent before the first answer, and there are
// four rounds.
func TestSnapshotRoundTrips(t *testing.T) {
	startBus(t)
	s := startTestService(t, simpleHost())
	rounds := []map[dbus.ObjectPath]int{
		{gonm.DnsManagerObjectPath: 1, base: 2},
		{find: 1},
		{base + "/Devices/2": 3},
		{base + "/ActiveConnection/2": 1, base + "/IP4Config/2": 1, base + "/IP6Config/2": 1},
	}
	arrived := make([]sync.WaitGroup, len(rounds))
	for i, paths := range rounds {
		for _, calls := range paths {
			arrived[i].Add(calls)
		}
	}
	s.setOnAsk(func(path dbus.ObjectPath) {
		i := slices.IndexFunc(rounds, func(paths map[dbus.ObjectPath]int) bool { return paths[path] > 0 })
		arrived[i].Done() // panics if there is an extra call
		arrived[i].Wait()
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := dial(t).Snapshot(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestNotRunning(t *testing.T) {
	t.Run("never started", func(t *testing.T) {
		bus := newBus(t)
		// Our calls must not make the bus start NetworkManager.
		started := filepath.Join(bus.Dir(), "started")
		bus.Write("nm.service", "[D-BUS Service]\nName="+gonm.NetworkManagerInterface+"\nUser=root\nExec=/bin/mkdir "+started+"\n")
		bus.Start()
		if _, err := dial(t).Snapshot(t.Context()); !errors.Is(err, ErrNotRunning) {
			t.Errorf("got %v", err)
		}
		if _, err := os.Stat(started); err == nil {
			t.Error("the call started NetworkManager")
		}
	})
	t.Run("gone before the first answer", func(t *testing.T) {
		startBus(t)
		s := startTestService(t, simpleHost())
		s.setOnAsk(func(dbus.ObjectPath) { s.stop() })
		if _, err := dial(t).Snapshot(t.Context()); !errors.Is(err, ErrNotRunning) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("gone after the first answers", func(t *testing.T) {
		startBus(t)
		s := startTestService(t, simpleHost())
		s.setOnAsk(func(path dbus.ObjectPath) {
			if path == base+"/Devices/2" {
				s.stop()
			}
		})
		if got, err := dial(t).Snapshot(t.Context()); !errors.Is(err, ErrNotRunning) {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("back again", func(t *testing.T) {
		startBus(t)
		startTestService(t, simpleHost()).stop()
		c := dial(t)
		if _, err := c.Snapshot(t.Context()); !errors.Is(err, ErrNotRunning) {
			t.Errorf("got %v", err)
		}
		startTestService(t, simpleHost())
		if _, err := c.Snapshot(t.Context()); err != nil {
			t.Errorf("on the same connection: got %v", err)
		}
	})
}

func TestNoBus(t *testing.T) {
	t.Run("no socket", func(t *testing.T) {
		newBus(t)
		if _, err := Dial(t.Context()); !errors.Is(err, ErrNoBus) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no listener", func(t *testing.T) {
		startBus(t).Kill()
		if _, err := Dial(t.Context()); !errors.Is(err, ErrNoBus) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("bus closes during a call", func(t *testing.T) {
		bus := startBus(t)
		c := dial(t)
		startTestService(t, simpleHost()).setOnAsk(func(dbus.ObjectPath) { bus.Process().Kill() })
		if _, err := c.Snapshot(t.Context()); !errors.Is(err, ErrNoBus) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("closed locally", func(t *testing.T) {
		startBus(t)
		c := dial(t)
		if err := errors.Join(c.Close(), c.Close()); err != nil {
			t.Errorf("second Close: got %v", err)
		}
		if _, err := c.Snapshot(t.Context()); !errors.Is(err, ErrNoBus) {
			t.Errorf("got %v", err)
		}
	})
}

// TestStoppedBus: the kernel accepts connections for a stopped bus.
func TestStoppedBus(t *testing.T) {
	bus := startBus(t)
	connected := dial(t)
	lab.SendSignal(t, bus.Process(), syscall.SIGSTOP)
	if _, err := Dial(soon(t)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Dial: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := Dial(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Dial, cancelled: %v", err)
	}
	if _, err := connected.Snapshot(soon(t)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Snapshot: %v", err)
	}
	lab.SendSignal(t, bus.Process(), syscall.SIGCONT)
	if _, err := connected.Snapshot(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Snapshot after SIGCONT: %v", err)
	}
}

// TestStoppedNetworkManager: the calls of gonetworkmanager 3.2.0 wait forever in this case.
func TestStoppedNetworkManager(t *testing.T) {
	startBus(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "NM_TEST_SERVICE=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	lab.StartUntilLine(t, cmd)
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	c := dial(t)
	if _, err := c.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	lab.SendSignal(t, cmd.Process, syscall.SIGSTOP)
	if _, err := c.Snapshot(soon(t)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stopped: %v", err)
	}
	lab.SendSignal(t, cmd.Process, syscall.SIGCONT)
	if _, err := c.Snapshot(t.Context()); err != nil {
		t.Errorf("after SIGCONT, on the same connection: %v", err)
	}
}

// TestHungObject: the deadline applies in each round.
func TestHungObject(t *testing.T) {
	for _, path := range []dbus.ObjectPath{
		gonm.DnsManagerObjectPath, base, find, base + "/ActiveConnection/2", base + "/Devices/2", base + "/IP6Config/2",
	} {
		t.Run(string(path), func(t *testing.T) {
			startBus(t)
			release := make(chan struct{})
			defer close(release)
			startTestService(t, simpleHost()).setOnAsk(func(asked dbus.ObjectPath) {
				if asked == path {
					<-release
				}
			})
			if _, err := dial(t).Snapshot(soon(t)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
	}
}
