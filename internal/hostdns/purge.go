package hostdns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/nm"
)

// What a purge does to its paths.
const (
	RemoveTree Action = "remove all of"
	RemoveDir  Action = "remove if empty" // a directory that node-dns may have created
)

// withPurge adds to a restore the steps that remove every trace of node-dns. It is pure, like
// NewPlan.
func withPurge(p Plan, s *State) Plan {
	p.Purge = capturedSteps(s)
	if s.NodeResolvConf.Exists && s.KubeletNaming != "" {
		p.Warnings = append(p.Warnings, "kept "+s.Paths.host(s.Paths.NodeResolvConf)+": "+s.KubeletNaming)
	}
	add := func(action Action, paths ...string) {
		for _, path := range paths {
			p.Purge = append(p.Purge, Step{Path: path, Action: action})
		}
	}
	node := filepath.Dir(s.Paths.NodeResolvConf)
	if s.Migrated {
		p.Warnings = append(p.Warnings, "kept "+s.Paths.host(s.Paths.Migration)+", the only copy of what the migration moved aside: to undo it, install node-dns again and run node-dns migrate --undo")
		add(Remove, s.Paths.Original, s.Paths.Record, s.Paths.Facts, s.Paths.Kubeconfig)
	} else {
		add(RemoveTree, filepath.Dir(s.Paths.Original))
	}
	add(RemoveTree, filepath.Dir(s.Paths.Rewrites))
	add(RemoveDir, node, filepath.Dir(node), filepath.Dir(s.Paths.Snippet), filepath.Dir(s.Paths.DropIn))
	add(Remove, s.Paths.Lock)
	add(RemoveTree, s.Paths.Cache, filepath.Dir(s.Paths.Request)) // the daemon's directories; a malicious daemon may have filled them with more than a run can remove
	return p
}

// capturedSteps remove the captured files if no other program relies on them: nothing else is in
// their directory, no configuration names them, and their content is what we wrote according to the
// record. The files have no header, because dnsmasq's file must match the script's byte for byte.
func capturedSteps(s *State) []Step {
	record, err := s.record()
	if err != nil {
		return nil
	}
	var steps []Step
	remove := func(path string, f File, alone bool, texts ...[]byte) {
		isText := func(text []byte) bool { return slices.Equal(sortedLines(f.Data), sortedLines(text)) }
		if alone && f.Link == "" && f.Exists && slices.ContainsFunc(texts, isText) {
			steps = append(steps, Step{Path: path, Action: Remove, Before: f})
		}
	}
	remove(s.Paths.Upstreams, s.Upstreams, s.UpstreamsAlone, upstreamText(record.Set))
	if node := s.Paths.NodeResolvConf; s.Config.KubeletResolvConf != node && s.Config.DNSRecursiveResolvConf != node && s.KubeletNaming == "" {
		unwritten := *s
		unwritten.NodeResolvConf.Data = nil // the content if no other program has written the file
		captured, asked := nodeResolvConf(&unwritten, record.Set), nodeResolvConf(&unwritten, askedForPods(&unwritten, record.Set))
		remove(node, s.NodeResolvConf, s.NodeResolvConfAlone, captured, asked)
	}
	return steps
}

// sortedLines returns the sorted lines of a text, because a file that was edited line by line may
// have a different order than a new one.
func sortedLines(text []byte) []string { return slices.Sorted(strings.Lines(string(text))) }

// dnsmasqReads reports whether /etc/dnsmasq.conf names the directory of the upstream file, as on
// RHEL. A dnsmasq that takes over again then reads its upstreams there.
func (p Paths) dnsmasqReads() bool {
	dir := filepath.Dir(p.host(p.Upstreams))
	for line := range strings.Lines(string(ReadFile(p.Root, filepath.Join(p.Root, "/etc/dnsmasq.conf")).Data)) {
		key, value, _ := strings.Cut(line, "=")
		value, _, _ = strings.Cut(value, ",")
		if strings.TrimSpace(key) == "conf-dir" && filepath.Clean(strings.TrimSpace(value)) == dir {
			return true
		}
	}
	return false
}

// isAlone reports whether the file is the only one in its directory.
func isAlone(path string) bool {
	entries, err := os.ReadDir(filepath.Dir(path))
	return err == nil && len(entries) == 1 && entries[0].Name() == filepath.Base(path)
}

// Purge is Restore, and also removes everything that node-dns created on this host. If node-dns
// runs, or resolv.conf cannot be restored, it does only what Restore does and returns an error.
func (r Runner) Purge(ctx context.Context, ifOurs bool) (Plan, Result, error) {
	return r.run(ctx, nm.Event{Action: "restore"}, func(s State) Plan { return r.purgePlan(ctx, s, ifOurs) })
}

func (r Runner) purgePlan(ctx context.Context, s State, ifOurs bool) Plan {
	s.KubeletNaming = s.Paths.kubeletNaming(s.Paths.host(s.Paths.NodeResolvConf))
	s.Migrated = mayExist(s.Paths.Migration)
	return withPurge(r.restorePlan(ctx, s, ifOurs), &s)
}

// purge carries out the purge steps of a plan, if it has any, after its restore.
func (r Runner) purge(ctx context.Context, p Plan, restored Result) (removed []string, err error) {
	if len(p.Purge) == 0 {
		return nil, nil
	}
	if restored.ResolvConf == Failed || restored.ResolvConf != Restored && p.Hold != notOurs {
		return nil, errors.New("not purged: /etc/resolv.conf still names this node, or was not restored")
	}
	if p.Stopped.IsValid() {
		if by, err := r.Applier.probe(ctx, p.Stopped, false); err == nil && nameserver.IsNodeDNS(by) {
			return nil, errors.New(`not purged: node-dns is running; run "systemctl stop node-dns" first`)
		}
	}
	done, err := r.Applier.each(ctx, p.Purge)
	return done.paths(), err
}

// removeAll and removeEmpty report whether something was removed. removeAll stops when ctx ends and
// leaves the rest to another run. It uses system calls: os.Root is as safe, but adds 29 kB to the
// hook's binary.
func removeAll(ctx context.Context, path string) (bool, error) {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err := removeIn(ctx, unix.AT_FDCWD, path); err != nil {
		return false, fmt.Errorf("removing files of node-dns: %s: %w", path, err)
	}
	return true, nil
}

const openDir = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

// removeIn removes name and everything below it from an open directory. It follows no link out of
// that.
func removeIn(ctx context.Context, above int, name string) error {
	err := unix.Unlinkat(above, name, 0)
	if errors.Is(err, unix.EISDIR) {
		err = unix.Unlinkat(above, name, unix.AT_REMOVEDIR)
	}
	if !errors.Is(err, unix.ENOTEMPTY) {
		return existing(err)
	}
	fd, err := unix.Openat(above, name, openDir|unix.O_NOFOLLOW, 0)
	if err != nil {
		return existing(err)
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	for {
		names, err := some(dir)
		if err != nil || len(names) == 0 {
			return errors.Join(err, existing(unix.Unlinkat(above, name, unix.AT_REMOVEDIR)))
		}
		for _, name := range names {
			if err := errors.Join(ctx.Err(), removeIn(ctx, fd, name)); err != nil {
				return err
			}
		}
	}
}

// some returns the names of some files in a directory, or nil if it is empty.
func some(dir *os.File) ([]string, error) {
	const atOnce = 1000
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(atOnce)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	return names, err
}

// existing returns err, or nil if err says that a file no longer exists.
func existing(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
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
