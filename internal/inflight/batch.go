package inflight

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// BatchSize is how many queries one system call receives at most.
const BatchSize = 32

// batch is what recvmmsg(2) fills, and what it needs for that.
type batch struct {
	messages [BatchSize]message
	iovs     [BatchSize][2]iovec
	clients  [BatchSize]unix.RawSockaddrInet6 // large enough for IPv4 too
	arrived  int64                            // all of them, by CLOCK_BOOTTIME in nanoseconds; 0: not known yet
	local    endpoint
	queries  [BatchSize][maxQuery]byte
}

// message is struct mmsghdr of recvmmsg(2), where a long has 64 bits. length is not 0 while the message is to be answered:
// the kernel sets it last.
type message struct {
	name       uintptr
	nameLength uint32
	_          uint32
	iov        uintptr
	iovLength  uintptr
	control    uintptr
	controlLen uintptr
	flags      int32
	_          uint32
	length     uint32
	_          uint32
}

// iovec is struct iovec of readv(2).
type iovec struct{ base, length uintptr }

func (b *batch) isTaken(i int) bool { return atomic.LoadUint32(&b.messages[i].length) != 0 }

func (b *batch) clear(i int) { atomic.StoreUint32(&b.messages[i].length, 0) }

// init points the messages to where the kernel is to write. What does not fit a query goes to rest, or nowhere.
func (b *batch) init(rest []byte) {
	for i := range b.messages {
		b.iovs[i] = [2]iovec{{uintptr(unsafe.Pointer(&b.queries[i])), maxQuery}}
		if rest != nil {
			b.iovs[i][1] = iovec{uintptr(unsafe.Pointer(&rest[i*restSize])), restSize}
		}
		b.messages[i] = message{
			name: uintptr(unsafe.Pointer(&b.clients[i])),
			iov:  uintptr(unsafe.Pointer(&b.iovs[i])), iovLength: uintptr(len(b.iovs[i])),
		}
		b.queries[i][maxQuery-1] = 0 // has the last page there: the kernel drops what it cannot copy because SIGKILL interrupts a page fault
		b.prepare(i)
	}
}

// prepare readies message i, which has been received into, for recvmmsg.
func (b *batch) prepare(i int) {
	b.clear(i)
	b.messages[i].nameLength = uint32(unsafe.Sizeof(b.clients[i]))
}
