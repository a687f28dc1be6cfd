// Package inflight keeps the queries that were received over UDP and not yet answered in memory that outlives the
// process, so that whoever takes over the sockets answers them too, also after SIGKILL.
//
// It is apart from dnsserver, which serves, and from the cache, which is handed over once, at an orderly end: here each
// query is written down by the kernel itself, in the same system call that takes it out of the socket. There is no
// moment at which a query is neither in the socket nor here.
//
// The memory is a memfd that the service manager holds. In it each Receiver has a batch, which the kernel fills, and what
// is not answered at once is put aside into a place, of which there is a fixed number. A query longer than 512 octets, and
// what comes beyond the batches and the places, is served as well, and lost with the process.
package inflight

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// places bounds the queries that are put aside: as many as dnsserver has in flight at a time. Memory is taken when a
	// place is first used, as with batches.
	places = 12288
	// batches bounds the Receivers whose queries are kept: as many as there may be sockets.
	batches = 1024

	headerSize  = int(unsafe.Sizeof(header{}))
	placesSize  = places * int(unsafe.Sizeof(place{}))
	batchesSize = batches * int(unsafe.Sizeof(batch{}))
	size        = headerSize + placesSize + batchesSize
)

// header is what stands before the places.
type header struct {
	mark    [48]byte
	octets  uint32 // of the whole: the layout depends on the architecture
	used    uint32 // places that were ever used, which are the first ones
	batches uint32 // likewise
	_       uint32
}

// mark begins the memory. The number is the version of the layout.
const mark = "node-dns queries in flight 2\n"

// ErrForeign says that a file is no Log of this version and architecture.
var ErrForeign = errors.New("no log of queries in flight, or of another version")

// Log has the places and the batches. Its methods may be called concurrently. Nil is a Log without any.
type Log struct {
	memory []byte
	header *header
	left   []*place // of earlier processes, not yet taken

	mu          sync.Mutex // guards what follows, and the counts of header
	free        []*place   // that were used before; the last one is used next: its memory is warm
	freeBatches []*batch
}

// Create makes an empty Log, and the file that it lives in, which the caller closes; the Log goes on without it.
func Create() (*Log, *os.File, error) {
	fd, err := unix.MemfdCreate("node-dns queries in flight", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, nil, fmt.Errorf("making memory for the queries in flight: %w", err)
	}
	file := os.NewFile(uintptr(fd), "queries in flight")
	first := header{octets: uint32(size)}
	copy(first.mark[:], mark)
	err = unix.Ftruncate(fd, int64(size))
	if err == nil {
		_, err = file.WriteAt(unsafe.Slice((*byte)(unsafe.Pointer(&first)), unsafe.Sizeof(first)), 0)
	}
	var log *Log
	if err == nil {
		log, err = Open(file)
	}
	if err != nil {
		file.Close()
		return nil, nil, fmt.Errorf("making memory for the queries in flight: %w", err)
	}
	return log, file, nil
}

// Open goes on with the Log in a file. The caller closes the file; the Log goes on without it.
func Open(file *os.File) (*Log, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading the queries in flight: %w", err)
	}
	if info.Size() != int64(size) {
		return nil, ErrForeign
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping the queries in flight: %w", err)
	}
	l := &Log{memory: memory, header: (*header)(unsafe.Pointer(unsafe.SliceData(memory)))}
	if string(l.header.mark[:len(mark)]) != mark || l.header.octets != uint32(size) {
		return nil, errors.Join(ErrForeign, l.Close())
	}
	l.header.used, l.header.batches = min(l.header.used, places), min(l.header.batches, batches)
	for i := range l.header.used {
		if p := l.at(i); p.isTaken() {
			l.left = append(l.left, p)
		} else {
			l.free = append(l.free, p)
		}
	}
	for i := range l.header.batches {
		l.empty(l.batchAt(i))
	}
	return l, nil
}

// empty puts aside what an earlier process has left in a batch.
func (l *Log) empty(b *batch) {
	for i := range b.messages {
		if b.isTaken(i) && b.messages[i].length <= maxQuery { // what is not whole cannot be asked again
			for _, p := range l.take(nil, 1) {
				p.fill(b, i)
				l.left = append(l.left, p)
			}
		}
		b.clear(i)
	}
	l.freeBatches = append(l.freeBatches, b)
}

func (l *Log) at(i uint32) *place {
	return (*place)(unsafe.Pointer(&l.memory[headerSize+int(i)*int(unsafe.Sizeof(place{}))]))
}

func (l *Log) batchAt(i uint32) *batch {
	return (*batch)(unsafe.Pointer(&l.memory[headerSize+placesSize+int(i)*int(unsafe.Sizeof(batch{}))]))
}

// Close gives the memory back. Nothing of the Log may be used after it, nor while it runs.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	return unix.Munmap(l.memory)
}

// take appends up to n free places; none when there are none.
func (l *Log) take(dst []*place, n int) []*place {
	if l == nil {
		return dst
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	used := min(n, len(l.free))
	dst = append(dst, l.free[len(l.free)-used:]...)
	l.free = l.free[:len(l.free)-used]
	for ; used < n && l.header.used < places; used++ {
		l.header.used++
		dst = append(dst, l.at(l.header.used-1))
	}
	return dst
}

func (l *Log) giveBack(some ...*place) {
	if len(some) == 0 {
		return
	}
	for _, p := range some {
		p.clear()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = append(l.free, some...)
}

// takeBatch returns a batch that nobody has; nil when there is none.
func (l *Log) takeBatch() *batch {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := len(l.freeBatches) - 1; last >= 0 {
		b := l.freeBatches[last]
		l.freeBatches = l.freeBatches[:last]
		return b
	}
	if l.header.batches == batches {
		return nil
	}
	l.header.batches++
	return l.batchAt(l.header.batches - 1)
}

func (l *Log) giveBackBatch(b *batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.freeBatches = append(l.freeBatches, b)
}
