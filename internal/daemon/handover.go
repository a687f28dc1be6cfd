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

// FDNAMEs of files, other than sockets, that the service manager holds for the next daemon.
const (
	cacheName = "cache"
	// queriesName was a log of received queries, which earlier versions kept and replayed. A query
	// that crashed the process crashed the next one too. An upgrade removes the log unread.
	queriesName = "queries-in-flight"
)

const (
	// leaveTimeout bounds the time that upstreams have to answer received queries when a successor
	// takes over. Until the successor runs, new queries wait in the sockets. The package raises
	// net.core.rmem_max to make room for them there.
	leaveTimeout = time.Second
	// maxCacheDump bounds the cache dump that is handed over, in bytes: 10,000 answers of 150 each
	// are 1.5 MB.
	maxCacheDump = 16 << 20
)

// mostCacheDump returns the maximum size of the cache dump under the Go runtime's memory limit; 0
// means none. The dump, its sealed copy and the memory file exist at once, beside a full cache:
// with MemoryMax=96M and 16 MiB each, the kernel killed the daemon at a restart.
func mostCacheDump(limit int64) int {
	if limit == 0 {
		return maxCacheDump
	}
	return int(min(limit/16, maxCacheDump))
}

// inherited is the state left by an earlier daemon. The zero value is empty.
type inherited struct {
	cache   cache.Sealed
	sockets int
}

// inherit sorts the files that the service manager passed. It removes those that are not needed any
// more from the store.
func (d *Daemon) inherit(files []*os.File) inherited {
	var from inherited
	store := d.sockets.store
	for _, file := range files {
		var err error
		switch file.Name() {
		case queriesName:
			err = store.Remove(queriesName)
		case cacheName:
			var sealed cache.Sealed
			if sealed, err = readCache(file); err == nil && (from.cache.Dump == nil || sealed.Away < from.cache.Away) {
				from.cache = sealed
			}
			err = errors.Join(err, store.Remove(cacheName)) // use it only once, whatever is in it
		default:
			if d.sockets.inherit(file) {
				from.sockets++
				continue
			}
			err = errors.Join(errors.New("unusable"), store.Remove(file.Name()))
		}
		file.Close()
		if err != nil {
			d.log.Warn("cannot use a file that the service manager kept", "name", file.Name(), "error", err, journal.HandoverFailed.Attr())
		}
	}
	return from
}

// takeOverFrom restores the earlier daemon's cache. It skips the cluster's names, which have their
// own snapshot, and answers of servers that are no longer used. If the settings have changed, the
// cache starts empty, as after a reload: answers were stored after bogus-nxdomain, for example.
func (d *Daemon) takeOverFrom(from inherited) {
	if from.cache.Dump == nil {
		return
	}
	if from.cache.Settings != d.policy().Settings.Sum() {
		d.log.Info("the cache is empty, because the settings have changed")
		return
	}
	n, err := d.resolver.Cache().Restore(from.cache.Dump, from.cache.Away, func(e cache.Entry) bool {
		return !slices.ContainsFunc(d.policy().Apexes, e.Within) && !d.resolver.IsStale(e)
	})
	if err != nil {
		d.log.Warn("cannot restore the cache", "error", err, journal.HandoverFailed.Attr())
		return
	}
	d.log.Info("took over the cache", "entries", n)
}

// handsOver reports whether a successor takes over: the service manager holds all sockets, and this
// is not the final stop of the service.
func (d *Daemon) handsOver(ctx context.Context) bool {
	if d.server == nil || !d.sockets.all() {
		return false
	}
	keeps, err := d.sockets.store.Keeps()
	if err != nil {
		d.log.Warn("cannot hand over to the next process", "error", err, journal.HandoverFailed.Attr())
	}
	return keeps && !d.isStopped(ctx)
}

const (
	// jobTimeout bounds the first query to systemd for the reason of the stop. It answers within
	// milliseconds unless the bus hangs.
	jobTimeout = 300 * time.Millisecond
	// jobLimit bounds all attempts together.
	jobLimit = 3 * jobTimeout
)

// isStopped reports whether systemd stops the service for good. If systemd cannot be queried, a
// successor is assumed, because of Restart=always.
func (d *Daemon) isStopped(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, jobLimit)
	defer cancel()
	var job dbusconn.Job
	err := dbusconn.AskOnBus(ctx, jobTimeout, func(ctx context.Context, m *dbusconn.Manager) (err error) {
		job, err = m.Job(ctx, "node-dns.service")
		return err
	})
	if err != nil {
		d.log.Debug("cannot ask systemd for the reason for the stop", "error", err)
	}
	return job == dbusconn.Stop
}

// handOver stops without losing a query. It drains TCP while UDP is still served, and hands the
// cache over. Then it stops receiving over UDP and waits for the answers to received queries.
// Queries without an answer within leaveTimeout get a stale answer or SERVFAIL. It waits for
// nothing else, because new queries wait until the successor runs.
func (d *Daemon) handOver(ctx context.Context) error {
	err := d.server.DrainTCP(ctx)
	if failed := d.leaveCache(); failed != nil {
		d.log.Warn("cannot hand over the cache", "error", failed, journal.HandoverFailed.Attr())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	d.log.Info("handed over", "unanswered", d.server.Leave(ctx, d.resolver.GiveUp), journal.HandedOver.Attr())
	return err
}

// leaveCache passes the cache's content to the service manager.
func (d *Daemon) leaveCache() error {
	dump := d.resolver.Cache().Dump(mostCacheDump(d.memory.limit.Load()))
	if len(dump) == 0 {
		return nil
	}
	fd, err := unix.MemfdCreate("node-dns cache", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("creating a memory file: %w", err)
	}
	file := os.NewFile(uintptr(fd), cacheName)
	defer file.Close()
	if _, err := file.Write(cache.Seal(dump, d.policy().Settings.Sum(), bootTime())); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return d.sockets.store.Put(cacheName, fd)
}

// readCache reads the output of leaveCache.
func readCache(file *os.File) (cache.Sealed, error) {
	const limit = maxCacheDump + 1<<10
	data, err := io.ReadAll(io.NewSectionReader(file, 0, limit))
	if err != nil {
		return cache.Sealed{}, fmt.Errorf("reading: %w", err)
	}
	return cache.Unseal(data, bootTime())
}

// bootTime returns CLOCK_BOOTTIME, which continues across processes and during suspend.
func bootTime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // since Linux 2.6.39
	return time.Duration(now.Nano())
}
