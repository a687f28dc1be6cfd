package firewall

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/sys/dbusconn"
)

// patience is the time limit of Read. firewalld answers within milliseconds, or within a second
// while it reloads. In an emulated machine it takes ten times as long.
const patience = 5 * time.Second

// Read reads the filters of the calling thread's network namespace. It changes nothing and reports
// errors in State.Problems.
func Read(ctx context.Context) State {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var s State
	rules, err := readRuleset(ctx)
	switch {
	case err == nil:
		s.Rules = rules
	case !errors.Is(err, os.ErrPermission): // expected without root
		s.Problems = append(s.Problems, err.Error())
	}
	for isIPv6, file := range map[bool]string{false: "/proc/net/ip_tables_names", true: "/proc/net/ip6_tables_names"} {
		// One line for each table in use. Only root can read the file. It is missing if the kernel
		// lacks the older interface.
		text, err := os.ReadFile(file)
		if err == nil && slices.Contains(strings.Fields(string(text)), "filter") {
			s.Legacy = append(s.Legacy, legacyPrograms[isIPv6])
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			s.Problems = append(s.Problems, err.Error())
		}
	}
	slices.Sort(s.Legacy)
	if s.Firewalld, err = readFirewalld(ctx); err != nil {
		s.Problems = append(s.Problems, fmt.Sprintf("asking firewalld: %v", err))
	}
	return s
}

// Names on D-Bus: firewalld.dbus(5).
const (
	firewalldName  = "org.fedoraproject.FirewallD1"
	firewalldPath  = "/org/fedoraproject/FirewallD1"
	zoneMethods    = firewalldName + ".zone."
	policyMethods  = firewalldName + ".policy."
	hostIPv6Policy = "allow-host-ipv6" // firewalld's own policy, for neighbor discovery
)

// readFirewalld returns nil if firewalld does not run.
func readFirewalld(ctx context.Context) (*Firewalld, error) {
	conn, err := dbusconn.Dial(ctx, dbusconn.Config{})
	if errors.Is(err, dbusconn.ErrNoBus) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	q := query{ctx: ctx, firewalld: conn.Object(firewalldName, firewalldPath), services: map[string][]Port{}}
	var standard string
	if err := q.call(&standard, firewalldName+".getDefaultZone"); err != nil {
		if e := (dbus.Error{}); errors.As(err, &e) && (e.Name == "org.freedesktop.DBus.Error.NameHasNoOwner" || e.Name == "org.freedesktop.DBus.Error.ServiceUnknown") {
			return nil, nil
		}
		return nil, err
	}
	var active map[string]map[string][]string
	if err := q.call(&active, zoneMethods+"getActiveZones"); err != nil {
		return nil, err
	}
	var policies map[string]map[string][]string
	if err := q.call(&policies, policyMethods+"getActivePolicies"); err != nil {
		policies = nil // firewalld before 0.9 has none
	}
	zones := map[string]Zone{}
	for _, name := range append(slices.Collect(maps.Keys(active)), standard) {
		if zones[name], err = q.zone(name); err != nil {
			return nil, err
		}
	}
	for name, p := range policies {
		if name == hostIPv6Policy || !slices.Contains(p["egress_zones"], "HOST") {
			continue
		}
		for zone, z := range zones {
			z.More = z.More || slices.Contains(p["ingress_zones"], zone) || slices.Contains(p["ingress_zones"], "ANY")
			zones[zone] = z
		}
	}
	return newFirewalld(standard, zones), nil
}

// query sends requests to firewalld.
type query struct {
	ctx       context.Context
	firewalld dbus.BusObject
	services  map[string][]Port // cache: ports by service
}

// call stores the result of a method. It does not start firewalld.
func (q query) call(result any, method string, args ...any) error {
	return q.firewalld.CallWithContext(q.ctx, method, dbus.FlagNoAutoStart, args...).Store(result)
}

// dbusPort is a port and a protocol, as in ("53", "udp").
type dbusPort struct{ Port, Protocol string }

// settings are the settings of a zone or a service (getZoneSettings2 and getServiceSettings2 in
// firewalld.dbus(5)). Unset ones are missing.
type settings map[string]dbus.Variant

func (s settings) store(key string, to any) error {
	if v, ok := s[key]; ok {
		return v.Store(to)
	}
	return nil
}

func (q query) zone(name string) (Zone, error) {
	z := Zone{Name: name, Target: "default"}
	var s settings
	if err := q.call(&s, zoneMethods+"getZoneSettings2", name); err != nil {
		return z, err
	}
	var ports []dbusPort
	var services, rich []string
	if err := errors.Join(s.store("target", &z.Target), s.store("interfaces", &z.Interfaces), s.store("sources", &z.Sources), s.store("protocols", &z.Protocols),
		s.store("services", &services), s.store("ports", &ports), s.store("rules_str", &rich)); err != nil {
		return z, fmt.Errorf("settings of zone %s: %w", name, err)
	}
	z.More = slices.ContainsFunc(rich, func(rule string) bool { return slices.Contains(strings.Fields(rule), "accept") })
	all, err := q.ports(ports)
	z.Ports = all
	for _, service := range services {
		more, serviceErr := q.service(service)
		z.Ports, err = append(z.Ports, more...), errors.Join(err, serviceErr)
	}
	return z, err
}

func (q query) ports(list []dbusPort) ([]Port, error) {
	var all []Port
	for _, p := range list {
		if p.Port == "" { // in a service: all ports of the protocol
			p.Port = "0-65535"
		}
		port, err := parsePort(p.Port, p.Protocol)
		if err != nil {
			return nil, err
		}
		all = append(all, port)
	}
	return all, nil
}

// service returns the ports of a service and of the services that it includes.
func (q query) service(name string) ([]Port, error) {
	if have, ok := q.services[name]; ok {
		return have, nil
	}
	q.services[name] = nil // services may include each other
	var s settings
	if err := q.call(&s, firewalldName+".getServiceSettings2", name); err != nil {
		return nil, err
	}
	var ports []dbusPort
	var includes []string
	if err := errors.Join(s.store("ports", &ports), s.store("includes", &includes)); err != nil {
		return nil, fmt.Errorf("settings of service %s: %w", name, err)
	}
	all, err := q.ports(ports)
	for _, included := range includes {
		more, includeErr := q.service(included)
		all, err = append(all, more...), errors.Join(err, includeErr)
	}
	q.services[name] = all
	return all, err
}
