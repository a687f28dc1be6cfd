package dnsserver

import "golang.org/x/sys/unix"

// processor is where a classic BPF program finds the processor that it runs on: SKF_AD_OFF + SKF_AD_CPU of linux/filter.h.
const processor = 0xfffff000 + 36

// steer has the kernel choose among the sockets of one address by the processor that a query comes in on, where it would choose by a
// hash of the client's address (SO_ATTACH_REUSEPORT_CBPF of socket(7), Linux 4.5). The receiver that was last at work on that processor
// finds the query in its cache, and need not be woken on another one.
//
// The program belongs to all sockets that share the address, and stays with them over a hand-over. It is replaced where there are more
// of them, or fewer. Which socket has which number does not matter: each processor has one. If the program names one that does not
// exist, or the kernel refuses it, the hash decides.
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
