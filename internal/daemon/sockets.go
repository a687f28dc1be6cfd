package daemon

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

const (
	// storeRoom is the number of files that the service manager holds for us:
	// FileDescriptorStoreMax= of node-dns.service. systemd 254 and later pass the number in
	// $FDSTORE.
	storeRoom = 1024
	// storeAside is reserved for files that are not sockets and for a probe.
	storeAside = 4
	// unwanted is how long an inherited socket is kept unused. The addresses or the cluster's file
	// may not be known at first. After that time no client waits for an answer any more.
	unwanted = 5 * time.Second
)

// socketKey identifies one listening socket. index distinguishes the sockets of one address.
type socketKey struct {
	proto dnsserver.Proto
	addr  netip.AddrPort
	index int
}

// name returns the socket's FDNAME, which must not contain a colon (sd_notify(3)).
func (k socketKey) name() string {
	addr := strings.ReplaceAll(k.addr.Addr().String(), ":", "_")
	return fmt.Sprintf("%s-%s-%d-%d", k.proto, addr, k.addr.Port(), k.index)
}

// named returns the key of the same address with that name, or nil.
func (k socketKey) named(name string) *socketKey {
	for k.index = range dnsserver.MaxSockets {
		if k.name() == name {
			return &k
		}
	}
	return nil
}

// sockets passes the listening sockets to the service manager, so that queries wait in them while
// no process runs.
type sockets struct {
	store supervise.Store
	log   *slog.Logger
	room  int

	mu        sync.Mutex             // guards the fields below
	inherited map[socketKey]*os.File // from the store, not used yet
	units     map[socketKey]*os.File // from socket units; may be taken again, because no other program can bind there
	stored    map[socketKey]bool
	lost      map[socketKey]bool // not held by the manager: the store is full or failed
	until     time.Time          // when unused inherited sockets are closed; zero before the first look
}

var _ dnsserver.Sockets = (*sockets)(nil)

func newSockets(store supervise.Store, log *slog.Logger) *sockets {
	s := &sockets{
		store: store, log: log, room: storeRoom - storeAside,
		inherited: map[socketKey]*os.File{}, units: map[socketKey]*os.File{}, stored: map[socketKey]bool{}, lost: map[socketKey]bool{},
	}
	if n, err := strconv.Atoi(os.Getenv("FDSTORE")); err == nil {
		s.room = max(0, n-storeAside)
	}
	return s
}

// inherit takes a file from the service manager and reports whether it is a listening socket.
func (s *sockets) inherit(file *os.File) bool {
	proto, addr, err := dnsserver.Identify(file)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := socketKey{proto: proto, addr: addr}
	into := s.units
	if stored := key.named(file.Name()); stored != nil {
		key = *stored
		into, s.stored[key] = s.inherited, true
	}
	if into[key] != nil {
		file.Close() // a duplicate
	} else {
		into[key] = file
	}
	return true
}

// Take implements dnsserver.Sockets.
func (s *sockets) Take(proto dnsserver.Proto, addr netip.AddrPort, index int) *os.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := socketKey{proto, addr, index}
	if file := s.inherited[key]; file != nil {
		delete(s.inherited, key)
		return file
	}
	if file := s.units[key]; file != nil {
		fd, err := dnsserver.Dup(file)
		if err != nil {
			s.log.Warn("cannot use the socket of a socket unit", "unit", file.Name(), "error", err)
			return nil
		}
		return os.NewFile(uintptr(fd), file.Name())
	}
	return nil
}

// Keep implements dnsserver.Sockets.
func (s *sockets) Keep(proto dnsserver.Proto, addr netip.AddrPort, index, fd int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := socketKey{proto, addr, index}
	if s.stored[key] || s.units[key] != nil || !s.store.Exists() {
		return
	}
	if len(s.stored) >= s.room {
		s.lost[key] = true
		return
	}
	if err := s.store.Put(key.name(), fd); err != nil {
		s.log.Warn("a socket will close when this process ends", "address", addr, "proto", string(proto), "error", err, journal.HandoverFailed.Attr())
		s.lost[key] = true
		return
	}
	s.stored[key] = true
}

// Drop implements dnsserver.Sockets.
func (s *sockets) Drop(proto dnsserver.Proto, addr netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for index := range dnsserver.MaxSockets {
		s.dropLocked(socketKey{proto, addr, index})
	}
}

// Discard implements dnsserver.Sockets. The socket of a unit stays, because systemd keeps it open.
func (s *sockets) Discard(proto dnsserver.Proto, addr netip.AddrPort, index int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(socketKey{proto, addr, index})
}

func (s *sockets) dropLocked(key socketKey) {
	delete(s.lost, key)
	if !s.stored[key] {
		return
	}
	delete(s.stored, key)
	if err := s.store.Remove(key.name()); err != nil {
		s.log.Warn("the service manager still holds a socket", "name", key.name(), "error", err)
	}
}

// closeUnused closes inherited sockets that were unused for too long. It returns how long the
// others wait, or zero if no socket is left.
func (s *sockets) closeUnused(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.inherited) == 0 {
		return 0
	}
	if s.until.IsZero() {
		s.until = now.Add(unwanted)
	}
	if now.Before(s.until) {
		return s.until.Sub(now)
	}
	for key, file := range s.inherited {
		s.log.Info("stopped listening", "addresses", key.addr, "proto", string(key.proto))
		file.Close()
		delete(s.inherited, key)
		s.dropLocked(key)
	}
	return 0
}

// all reports whether the manager holds every socket.
func (s *sockets) all() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.Exists() && len(s.lost) == 0
}

// note returns a note for the admin, or "" if there is no problem.
func (s *sockets) note() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lost) == 0 {
		return ""
	}
	return fmt.Sprintf("%d listening sockets will close when this process ends; systemd holds %d (FileDescriptorStoreMax=)", len(s.lost), len(s.stored))
}
