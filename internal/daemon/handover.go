package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/sys/dbusconn"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// What the service manager holds for the next daemon besides sockets, by its FDNAME.
const (
	cacheName = "cache"
	// queriesName is a log of received queries, which earlier versions kept and replayed. A query that crashed the process
	// crashed the next one too. What an upgrade finds of it is removed unread.
	queriesName = "queries-in-flight"
)

const (
	// leaveTimeout is how long upstreams may take to answer what was received, when a successor takes over. Until the
	// successor runs, queries wait in the sockets: the package raises net.core.rmem_max so that they have room there.
	leaveTimeout = time.Second
	// maxCacheDump bounds what the cache hands over, in octets: 10,000 answers of 150 each are 1.5 MB.
	maxCacheDump = 16 << 20
)

// inherited is what an earlier daemon has left; the zero value has nothing.
type inherited struct {
	cache   []byte        // as cache.Dump wrote it; nil: none
	away    time.Duration // since it was written
	sockets int
}

// inherit sorts what the service manager passed. It removes what is not used again from the store.
func (d *Daemon) inherit(files []*os.File) inherited {
	var from inherited
	store := d.sockets.store
	for _, file := range files {
		var err error
		switch file.Name() {
		case queriesName:
			err = store.Remove(queriesName)
		case cacheName:
			from.cache, from.away, err = readCache(file)
			err = errors.Join(err, store.Remove(cacheName)) // once, whatever is in it
		default:
			if d.sockets.inherit(file) {
				from.sockets++
				continue
			}
			err = errors.Join(errors.New("of no use"), store.Remove(file.Name()))
		}
		file.Close()
		if err != nil {
			d.log.Warn("not taking over what the service manager held", "name", file.Name(), "error", err, journal.HandoverFailed.Attr())
		}
	}
	return from
}

// takeOverFrom remembers what the earlier daemon's cache had. The cluster's names are left out, they have a snapshot of
// their own; and so is what came from servers that are not asked any more.
func (d *Daemon) takeOverFrom(from inherited) {
	if from.cache == nil {
		return
	}
	n, err := d.resolver.Cache().Restore(from.cache, from.away, func(e cache.Entry) bool {
		return !slices.ContainsFunc(d.policy().Apexes, e.Within) && !d.resolver.IsStale(e)
	})
	if err != nil {
		d.log.Warn("not taking over the cache", "error", err, journal.HandoverFailed.Attr())
		return
	}
	d.log.Info("took over the cache", "entries", n)
}

// handsOver reports whether a successor takes over what this daemon has: who holds the sockets has them all, and does not
// stop the service for good.
func (d *Daemon) handsOver(ctx context.Context) bool {
	if d.server == nil || !d.sockets.all() {
		return false
	}
	keeps, err := d.sockets.store.Keeps()
	if err != nil {
		d.log.Warn("not handing over", "error", err, journal.HandoverFailed.Attr())
	}
	return keeps && !d.isStopped(ctx)
}

const (
	// jobTimeout is how long systemd may take at first to say why we stop. It answers within milliseconds, unless the bus hangs.
	jobTimeout = 300 * time.Millisecond
	// jobLimit bounds all tries.
	jobLimit = 3 * jobTimeout
)

// isStopped reports whether systemd stops the service for good. When that cannot be asked a successor is taken for granted,
// as Restart=always has it.
func (d *Daemon) isStopped(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, jobLimit)
	defer cancel()
	var job dbusconn.Job
	err := dbusconn.Retry(ctx, jobTimeout, 0, func(ctx context.Context) error {
		manager, err := dbusconn.ManagerOnBus(ctx)
		if err != nil {
			return err
		}
		defer manager.Close()
		job, err = manager.Job(ctx, "node-dns.service")
		return err
	})
	if err != nil {
		d.log.Debug("not asked why we stop", "error", err)
	}
	return job == dbusconn.Stop
}

// handOver ends without losing a query. It drains TCP while UDP is served, and hands the cache over. Then it stops receiving
// over UDP, and waits for the answers to what was received. What has none within leaveTimeout gets a stale answer or
// SERVFAIL. It waits for nothing after that, because queries wait until the successor runs.
func (d *Daemon) handOver(ctx context.Context) error {
	err := d.server.DrainTCP(ctx)
	if failed := d.leaveCache(); failed != nil {
		d.log.Warn("the cache is not handed over", "error", failed, journal.HandoverFailed.Attr())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	d.log.Info("handed over", "unanswered", d.server.Leave(ctx, d.resolver.GiveUp), journal.HandedOver.Attr())
	return err
}

// leaveCache has the service manager hold the cache's content.
func (d *Daemon) leaveCache() error {
	dump := d.resolver.Cache().Dump(maxCacheDump)
	if len(dump) == 0 {
		return nil
	}
	fd, err := unix.MemfdCreate("node-dns cache", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("making memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), cacheName)
	defer file.Close()
	if _, err := file.Write(cache.Seal(dump, bootTime())); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return d.sockets.store.Put(cacheName, fd)
}

// readCache reads what leaveCache wrote, and how long ago that was.
func readCache(file *os.File) (dump []byte, away time.Duration, err error) {
	const limit = maxCacheDump + 1<<10
	data, err := io.ReadAll(io.NewSectionReader(file, 0, limit))
	if err != nil {
		return nil, 0, fmt.Errorf("reading: %w", err)
	}
	return cache.Unseal(data, bootTime())
}

// bootTime is CLOCK_BOOTTIME, which the next process has too, and which goes on while the machine sleeps.
func bootTime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // since Linux 2.6.39
	return time.Duration(now.Nano())
}
