package daemon

import (
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/forward"
	"github.com/node-dns/node-dns/internal/nameserver"
)

// listen binds what s wants. What is bound already stays as it is.
func (d *Daemon) listen(s *serving) error {
	return d.server.Listen(s.listen)
}

// listening are the addresses that are bound.
func (d *Daemon) listening() []netip.AddrPort {
	var addrs []netip.AddrPort
	for _, l := range d.server.Listeners() {
		if l.Err == "" && !slices.Contains(addrs, l.Addr) {
			addrs = append(addrs, l.Addr)
		}
	}
	return addrs
}

// logServing logs what changed between two servings; old is nil at the start.
func (d *Daemon) logServing(old, next *serving) {
	if old == nil {
		old = &serving{}
	}
	if was, is := listenText(old.listen), listenText(next.listen); was != is {
		d.log.Info("listening", slog.String("addresses", is), slog.String("before", was))
	}
	if was, is := routeText(old.routes), routeText(next.routes); was != is {
		d.log.Info("routes", slog.String("routes", is), slog.String("before", was))
	}
	for _, problem := range next.problems {
		if !slices.Contains(old.problems, problem) {
			d.log.Warn("problem", slog.String("problem", problem))
		}
	}
}

func listenText(addrs []netip.AddrPort) string {
	var words []string
	for _, addr := range addrs {
		words = append(words, addr.String())
	}
	return strings.Join(words, " ")
}

func routeText(routes []forward.Route) string {
	var words []string
	for _, route := range routes {
		words = append(words, route.Domain.String()+"="+serverText(route.Servers))
	}
	return strings.Join(words, " ")
}

func serverText(servers []nameserver.Server) string {
	var words []string
	for _, server := range servers {
		words = append(words, server.String())
	}
	return strings.Join(words, ",")
}
