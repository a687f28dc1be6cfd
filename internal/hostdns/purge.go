package hostdns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/upstream"
)

// What a purge does to its paths.
const (
	RemoveTree Action = "remove all of"
	RemoveDir  Action = "remove if empty" // a directory that we may have made
)

// withPurge adds to a restore what leaves no trace: for who takes node-dns off the host. Pure, as NewPlan is.
func withPurge(p Plan, s State) Plan {
	p.Purge = capturedSteps(s)
	for _, path := range []string{filepath.Dir(s.Paths.Original), s.Paths.Cache, filepath.Dir(s.Paths.Request), filepath.Dir(s.Paths.Rewrites)} {
		p.Purge = append(p.Purge, Step{Path: path, Action: RemoveTree})
	}
	node := filepath.Dir(s.Paths.NodeResolvConf)
	for _, path := range []string{node, filepath.Dir(node), filepath.Dir(s.Paths.Snippet), filepath.Dir(s.Paths.DropIn)} {
		p.Purge = append(p.Purge, Step{Path: path, Action: RemoveDir})
	}
	p.Purge = append(p.Purge, Step{Path: s.Paths.Lock, Action: Remove})
	return p
}

// capturedSteps remove the captured files where nobody can count on them: nothing else is in their directory, no
// configuration names them, and they say what the record says that we wrote. They have no header: dnsmasq's file is the
// script's, to the byte.
func capturedSteps(s State) []Step {
	record, err := upstream.ParseRecord(s.Record.Data)
	if err != nil {
		return nil
	}
	var steps []Step
	remove := func(path string, f File, text []byte, alone bool) {
		if alone && f.Link == "" && f.Exists && bytes.Equal(f.Data, text) {
			steps = append(steps, Step{Path: path, Action: Remove, Before: f})
		}
	}
	remove(s.Paths.Upstreams, s.Upstreams, record.Set.DnsmasqConf(), s.UpstreamsAlone)
	if node := s.Paths.NodeResolvConf; s.Config.KubeletResolvConf != node && s.Config.DNSRecursiveResolvConf != node {
		remove(node, s.NodeResolvConf, record.Set.ResolvConf(), s.NodeResolvConfAlone)
	}
	return steps
}

// isAlone reports whether nothing but the file is in its directory.
func isAlone(path string) bool {
	entries, err := os.ReadDir(filepath.Dir(path))
	return err == nil && len(entries) == 1 && entries[0].Name() == filepath.Base(path)
}

// Purge is Restore, and takes away all that node-dns has made on this host. While node-dns runs, or where resolv.conf cannot
// be given back, it does no more than Restore, which is an error.
func (r Runner) Purge(ctx context.Context, ifOurs bool) (Plan, Result, error) {
	return r.run(ctx, nm.Event{Action: "restore"}, func(s State) Plan { return withPurge(r.restorePlan(ctx, s, ifOurs), s) })
}

// purge carries out the rest of a plan that may have one, after its restore.
func (r Runner) purge(ctx context.Context, p Plan, restored Result) (removed []string, err error) {
	if len(p.Purge) == 0 {
		return nil, nil
	}
	if restored.ResolvConf != Restored && p.Hold != notOurs {
		return nil, errors.New("not purged: /etc/resolv.conf still names this node")
	}
	if p.Stopped.IsValid() {
		if by, err := r.Applier.probe(ctx, p.Stopped, false); err == nil && isNodeDNS(by) {
			return nil, errors.New("not purged: node-dns is running: stop it first: systemctl stop node-dns")
		}
	}
	done, err := r.Applier.each(ctx, p.Purge)
	return done.paths(), err
}

// removeAll and removeEmpty report whether something was there to be removed.
func removeAll(path string) (bool, error) {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err := os.RemoveAll(path); err != nil {
		return false, fmt.Errorf("removing what node-dns made: %w", err)
	}
	return true, nil
}

func removeEmpty(path string) (bool, error) {
	err := unix.Rmdir(path)
	if slices.ContainsFunc([]error{unix.ENOENT, unix.ENOTEMPTY, unix.EEXIST, unix.ENOTDIR, unix.EBUSY}, func(e error) bool { return errors.Is(err, e) }) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("removing the directory %s: %w", path, err)
	}
	return true, nil
}
