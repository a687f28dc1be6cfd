package dnsserver

import "golang.org/x/sys/unix"

// processor is the offset at which a classic BPF program reads the current CPU number: SKF_AD_OFF +
// SKF_AD_CPU of linux/filter.h.
const processor = 0xfffff000 + 36

// steer makes the kernel choose among the sockets of one address by the CPU on which a query
// arrives, instead of by a hash of the client's address (SO_ATTACH_REUSEPORT_CBPF of socket(7),
// Linux 4.5). The receiver that last ran on that CPU finds the query in its cache and need not be
// woken on another CPU.
//
// The program belongs to all sockets that share the address, and survives a hand-over. It is
// replaced if their number changes. The numbering of the sockets does not matter, since each CPU
// has one. If the program selects a socket that does not exist, or the kernel rejects the program,
// the hash decides.
func steer(all udpSockets) (err error) {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: processor},
		{Code: unix.BPF_ALU | unix.BPF_MOD | unix.BPF_K, K: uint32(len(all))},
		{Code: unix.BPF_RET | unix.BPF_A},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_ = all[0].file.Control(func(fd uintptr) { // fails on a closed socket only
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &filter)
	})
	return err
}
