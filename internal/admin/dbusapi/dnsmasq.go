package dbusapi

import (
	"context"
	"time"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
)

// apiVersion is the version of dnsmasq whose interface this is.
const apiVersion = "2.90"

// dnsmasqMethods are all methods of dnsmasq 2.90. Arguments that a method does not want are ignored, as dnsmasq does.
var dnsmasqMethods = map[string]method{
	"GetVersion": func(l *link, _ context.Context, _ request) ([]any, error) {
		return []any{apiVersion + "-node-dns-" + l.config.Version}, nil
	},
	"GetLoopServers": func(l *link, _ context.Context, _ request) ([]any, error) {
		return []any{append([]string{}, l.config.Loops()...)}, nil
	},
	"SetServers":               setter(parseServers),
	"SetServersEx":             setter(parseServersEx),
	"SetDomainServers":         setter(parseDomainServers),
	"SetFilterA":               option(func(o *dnsmasqconf.Options, on bool) { o.FilterA = on }),
	"SetFilterAAAA":            option(func(o *dnsmasqconf.Options, on bool) { o.FilterAAAA = on }),
	"SetFilterWin2KOption":     option(func(o *dnsmasqconf.Options, on bool) { o.FilterWin2K = on }),
	"SetBogusPrivOption":       option(func(o *dnsmasqconf.Options, on bool) { o.BogusPrivate = on }),
	"SetLocaliseQueriesOption": option(func(o *dnsmasqconf.Options, on bool) { o.Localise = on }),
	"GetMetrics": func(l *link, _ context.Context, _ request) ([]any, error) {
		return []any{l.config.Counters().since(l.zero).metrics()}, nil
	},
	"GetServerMetrics": func(l *link, _ context.Context, _ request) ([]any, error) {
		return []any{l.config.Counters().since(l.zero).serverMetrics()}, nil
	},
	"ClearMetrics": changing(func(l *link, _ context.Context, _ request) ([]any, error) {
		l.zero = l.config.Counters()
		return nil, nil
	}),
	"ClearCache": changing(func(l *link, _ context.Context, _ request) ([]any, error) {
		l.config.Log.Info("cleared cache", "entries", l.config.FlushCache())
		return nil, nil
	}),
	"AddDhcpLease":    noDHCP,
	"DeleteDhcpLease": noDHCP,
}

func noDHCP(*link, context.Context, request) ([]any, error) {
	return nil, fault{errorSupport, "node-dns serves no DHCP and has no leases"}
}

// changing lets root and our own user alone call a method.
func changing(m method) method {
	return func(l *link, ctx context.Context, r request) ([]any, error) {
		if caller := l.caller(ctx, r.sender); !caller.mayChange() {
			return nil, caller.refuse(r.member)
		}
		return m(l, ctx, r)
	}
}

// setter replaces all servers that were set before, when the arguments are right from the first to the last; else it changes
// nothing. dnsmasq keeps of a bad list what comes before the fault.
func setter(parse func(body []any) ([]dnsmasqconf.Rule, error)) method {
	return changing(func(l *link, ctx context.Context, r request) ([]any, error) {
		rules, err := parse(r.body)
		if err != nil {
			return nil, err
		}
		next := l.config.State()
		next.Rules, next.RulesBy = rules, l.by(ctx, r)
		return nil, l.set(ctx, next)
	})
}

func option(change func(o *dnsmasqconf.Options, on bool)) method {
	return changing(func(l *link, ctx context.Context, r request) ([]any, error) {
		on, err := boolean(r.body)
		if err != nil {
			return nil, err
		}
		next := l.config.State()
		change(&next.Options, on)
		next.OptionsBy = l.by(ctx, r)
		return nil, l.set(ctx, next)
	})
}

func boolean(body []any) (bool, error) {
	if len(body) > 0 {
		if on, ok := body[0].(bool); ok {
			return on, nil
		}
	}
	return false, refuse("Expected boolean argument")
}

// by is who made the request, and when.
func (l *link) by(ctx context.Context, r request) Caller {
	caller := l.caller(ctx, r.sender)
	caller.Method, caller.At = r.member, time.Now().UTC().Truncate(time.Second)
	return caller
}

// set has the daemon take over what is new. OpenShift's SDN sends the same servers every 30 s.
func (l *link) set(ctx context.Context, next State) error {
	if next.Same(l.config.State()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, setTimeout)
	defer cancel()
	return l.config.Set(ctx, next)
}
