package migrate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/firewall"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/sys/dbusconn"
)

// Survey inspects everything once. Below a root other than the host's own, it inspects only files.
// If it returns an error, Host holds what could be read.
func Survey(ctx context.Context, root string) (Host, error) {
	looker := hostdns.Looker{Paths: hostdns.NewPaths(root)}
	h := Host{Files: map[string]hostdns.File{}, Units: map[string]Unit{}, Root: os.Geteuid() == 0}
	h.State = looker.Look(ctx, nm.Event{})
	h.Plan = hostdns.NewPlan(h.State)
	h.Dnsmasq, h.DnsmasqErr = dnsmasqconf.Load(dnsmasqconf.DefaultPaths(root))
	units := []string{daemonUnit}
	for _, o := range origins() {
		units = append(units, o.units...)
		for _, pattern := range o.files {
			paths, err := filepath.Glob(filepath.Join(root, pattern))
			if err != nil {
				return h, fmt.Errorf("looking for %s: %w", pattern, err)
			}
			for _, path := range paths {
				h.Files["/"+strings.TrimPrefix(strings.TrimPrefix(path, root), "/")] = hostdns.ReadFile(root, path)
			}
		}
	}
	h.Files[ourConfig] = hostdns.ReadFile(root, filepath.Join(root, ourConfig))
	h.Fixed = isImmutable(filepath.Join(root, libcFile))
	slices.Sort(units)
	if filepath.Clean("/"+root) != "/" {
		h.Root = true // no process runs there that only root can see
		return h, nil
	}
	// The filter has its own timeout, because on a slow machine systemctl alone may use up the time
	// of ctx.
	filter := make(chan firewall.State, 1)
	go func() { filter <- firewall.Read(context.WithoutCancel(ctx)) }()
	_, err := exec.LookPath("nft")
	h.HasNFT = err == nil
	h.Holders, err = holders("/proc")
	var unitErr, ruleErr error
	h.Units, unitErr = ShowUnits(ctx, slices.Compact(units))
	if len(h.nodelocalAddrs()) > 0 {
		h.Rules, ruleErr = readRules(ctx)
	}
	h.KubeProxy = h.lookAtKubeProxy(ctx)
	h.Filter = <-filter
	return h, errors.Join(err, unitErr, ruleErr)
}

// isImmutable reports whether a file has the immutable attribute (chattr(1)). It is false if the
// file system does not support it (statx(2)).
func isImmutable(path string) bool {
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &stat)
	return err == nil && stat.Attributes&unix.STATX_ATTR_IMMUTABLE != 0
}

// unitProperties are the systemctl(1) names of the fields of Unit.
const unitProperties = "Id,LoadState,ActiveState,SubState,UnitFileState,FragmentPath,DropInPaths,Result,NRestarts"

// showTimeout limits the first attempt to ask systemd for units. systemd answers within some 10 ms,
// or much later if it is overloaded or stuck.
const showTimeout = 3 * time.Second

// ShowUnits asks systemd for units. The result contains all of them. A missed deadline is retried.
func ShowUnits(ctx context.Context, names []string) (map[string]Unit, error) {
	return showUnits(ctx, showTimeout, names)
}

func showUnits(ctx context.Context, first time.Duration, names []string) (map[string]Unit, error) {
	var out string
	err := dbusconn.Retry(ctx, first, 0, func(ctx context.Context) (err error) {
		out, err = command(ctx, append([]string{"systemctl", "show", "--property=" + unitProperties}, names...)...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return parseUnits(out, names), nil
}

// parseUnits parses the output of systemctl show: the units in the requested order, separated by
// empty lines. The order matters because an alias has the Id of its target.
func parseUnits(text string, names []string) map[string]Unit {
	units := map[string]Unit{}
	for i, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i >= len(names) {
			break
		}
		said := map[string]string{}
		for line := range strings.Lines(block) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			said[key] = value
		}
		units[names[i]] = Unit{
			Load: said["LoadState"], Active: said["ActiveState"], File: said["UnitFileState"],
			Path: said["FragmentPath"], DropIn: said["DropInPaths"],
			Sub: said["SubState"], Result: said["Result"], Restarts: said["NRestarts"],
		}
	}
	return units
}

// command runs a program and returns its output. The error contains the program's error output, or
// is the error of ctx.
func command(ctx context.Context, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil && ctx.Err() != nil { // ctx killed the program
		return string(out), fmt.Errorf("running %s: %w", strings.Join(argv, " "), ctx.Err())
	}
	if err != nil {
		return string(out), fmt.Errorf("running %s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(complaint.String()))
	}
	return string(out), nil
}
