package hostdns

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/node-dns/node-dns/internal/nm"
)

// Runner does whole runs: lock, look, plan, apply, and one log line that says what was seen and decided.
type Runner struct {
	Looker  Looker
	Applier Applier
	Log     *slog.Logger // nil: silent
}

// Apply brings the host's files up to what its State asks for. The event only says why.
func (r Runner) Apply(ctx context.Context, event nm.Event) (Plan, Result, error) {
	return r.run(ctx, event, NewPlan)
}

// Restore brings the original resolv.conf back; with ifOurs it leaves a file alone that is not ours.
func (r Runner) Restore(ctx context.Context, ifOurs bool) (Plan, Result, error) {
	return r.run(ctx, nm.Event{Action: "restore"}, func(s State) Plan { return NewRestorePlan(s, ifOurs) })
}

func (r Runner) run(ctx context.Context, event nm.Event, decide func(State) Plan) (Plan, Result, error) {
	unlock, err := Lock(ctx, r.Looker.Paths.Lock)
	if err != nil {
		r.log(event, Plan{}, Result{ResolvConf: Failed}, err)
		return Plan{}, Result{ResolvConf: Failed}, err
	}
	defer unlock()
	state := r.Looker.Look(ctx, event)
	if err := ctx.Err(); err != nil {
		// Half a look: without the kernel's addresses our own would pass for an upstream.
		err = fmt.Errorf("looking at this host: %w", err)
		r.log(event, Plan{}, Result{ResolvConf: Failed}, err)
		return Plan{}, Result{ResolvConf: Failed}, err
	}
	plan := decide(state)
	result, _, err := r.Applier.Apply(ctx, plan)
	r.log(event, plan, result, err)
	return plan, result, err
}

// log writes the one line of a run. Its keys are stable: tests and log searches depend on them.
func (r Runner) log(event nm.Event, p Plan, result Result, err error) {
	if r.Log == nil {
		return
	}
	attrs := []slog.Attr{
		slog.String("event", event.Action),
		slog.String("interface", event.Interface),
		slog.String("source", string(p.Selection.Origin)),
		slog.String("upstreams", string(p.Change)),
		slog.String("servers", serverList(p)),
		slog.String("resolv_conf", string(result.ResolvConf)),
	}
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	add("detail", p.Selection.Detail)
	if p.Nameserver.IsValid() {
		add("nameserver", p.Nameserver.Addr().String())
	}
	add("written", strings.Join(result.Written, " "))
	add("held", p.Hold)
	add("refused", refusedList(p))
	add("warning", strings.Join(p.Warnings, "; "))
	add("problem", strings.Join(p.Problems, "; "))
	if result.Silence != nil {
		add("silence", result.Silence.Error())
	}
	level := slog.LevelInfo
	if err != nil {
		level = slog.LevelError
		add("error", err.Error())
	}
	r.Log.LogAttrs(context.Background(), level, "host DNS", attrs...)
}

func serverList(p Plan) string {
	var list []string
	for _, server := range p.Selection.Set.Servers {
		list = append(list, server.String())
	}
	for _, route := range p.Selection.Set.Routes {
		for _, server := range route.Servers {
			list = append(list, route.Domain.String()+"="+server.String())
		}
	}
	return strings.Join(list, " ")
}

func refusedList(p Plan) string {
	var list []string
	for _, r := range p.Selection.Refused {
		list = append(list, r.Text+" ("+r.Reason+")")
	}
	return strings.Join(list, ", ")
}

// Show looks and plans without changing anything; silence says why the local nameserver does not answer, nil: it does.
func (r Runner) Show(ctx context.Context) (p Plan, silence error) {
	p = NewPlan(r.Looker.Look(ctx, nm.Event{}))
	_, _, silence = r.Applier.choose(ctx, p)
	return p, silence
}

// ShowRestore is Restore's plan, without carrying it out.
func (r Runner) ShowRestore(ctx context.Context, ifOurs bool) Plan {
	return NewRestorePlan(r.Looker.Look(ctx, nm.Event{}), ifOurs)
}
