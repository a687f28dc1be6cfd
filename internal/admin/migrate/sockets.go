package migrate

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// socket is one line of /proc/net/udp and similar files (proc_pid_net(5)).
type socket struct {
	proto  string
	local  netip.AddrPort
	state  uint64 // for TCP: tcpListen, tcpEstablished and others
	unread uint64 // bytes in the receive queue
	inode  uint64
}

// States of TCP sockets (include/net/tcp_states.h).
const (
	tcpEstablished = 1
	tcpCloseWait   = 8
	tcpListen      = 10
)

// readSockets reads the sockets of this network namespace. A missing file is skipped, because IPv6
// may be disabled.
func readSockets(proc string) ([]socket, error) {
	var all []socket
	for _, name := range []string{"udp", "udp6", "tcp", "tcp6"} {
		file, err := os.Open(filepath.Join(proc, "thread-self/net", name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the sockets: %w", err)
		}
		sockets, err := parseSockets(file, strings.TrimSuffix(name, "6"))
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("reading the sockets: %w", err)
		}
		all = append(all, sockets...)
	}
	return all, nil
}

// parseSockets parses one of the files. It skips invalid lines.
func parseSockets(r io.Reader, proto string) ([]socket, error) {
	var all []socket
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 {
			continue
		}
		local, ok := parseSocketAddr(fields[1])
		if !ok {
			continue // the header
		}
		s := socket{proto: proto, local: local}
		s.state, _ = strconv.ParseUint(fields[3], 16, 8)
		_, unread, _ := strings.Cut(fields[4], ":")
		s.unread, _ = strconv.ParseUint(unread, 16, 64)
		s.inode, _ = strconv.ParseUint(fields[9], 10, 64)
		all = append(all, s)
	}
	return all, lines.Err()
}

// parseSocketAddr parses an address in the kernel's format: hexadecimal words in native byte order.
func parseSocketAddr(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	octets, err := hex.DecodeString(host)
	number, portErr := strconv.ParseUint(port, 16, 16)
	if err != nil || portErr != nil || len(octets)%4 != 0 {
		return netip.AddrPort{}, false
	}
	if isLittleEndian {
		for word := range slices.Chunk(octets, 4) {
			slices.Reverse(word)
		}
	}
	addr, ok := netip.AddrFromSlice(octets)
	return netip.AddrPortFrom(addr.Unmap(), uint16(number)), ok
}

// owners maps each socket's inode to its process. It leaves out processes that we may not inspect.
func owners(proc string) map[uint64]int {
	found := map[uint64]int{}
	dirs, _ := filepath.Glob(filepath.Join(proc, "[0-9]*")) // the pattern is valid
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == 1 { // systemd keeps the sockets that it passes to services
			continue
		}
		for _, inode := range socketsOf(proc, pid) {
			found[inode] = pid
		}
	}
	return found
}

// socketsOf returns the inodes of a process's sockets. It is empty if the process has ended or we
// may not inspect it.
func socketsOf(proc string, pid int) (inodes []uint64) {
	dir := filepath.Join(proc, strconv.Itoa(pid), "fd")
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		target, err := os.Readlink(filepath.Join(dir, entry.Name()))
		text, ok := strings.CutPrefix(target, "socket:[")
		if err != nil || !ok {
			continue
		}
		if inode, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64); err == nil {
			inodes = append(inodes, inode)
		}
	}
	return inodes
}

// surveyed are the ports that Survey inspects.
var surveyed = []uint16{portDNS, portDHCP, portTFTP, portDHCPv6}

// MoreHolders returns the sockets of this host that listen on these ports, except for the ports
// that Survey has inspected.
func MoreHolders(ports []uint16) ([]Holder, error) {
	ports = slices.DeleteFunc(slices.Clone(ports), func(port uint16) bool { return slices.Contains(surveyed, port) })
	if len(ports) == 0 {
		return nil, nil
	}
	return holders("/proc", ports...)
}

// holders returns the sockets that listen on these ports. Without ports it uses those of Survey.
func holders(proc string, ports ...uint16) ([]Holder, error) {
	if len(ports) == 0 {
		ports = surveyed
	}
	sockets, err := readSockets(proc)
	if err != nil {
		return nil, err
	}
	sockets = slices.DeleteFunc(sockets, func(s socket) bool {
		return !slices.Contains(ports, s.local.Port()) || s.proto == "tcp" && s.state != tcpListen
	})
	owner := owners(proc)
	var all []Holder
	for _, s := range sockets {
		h := Holder{Proto: s.proto, Addr: s.local, PID: owner[s.inode]}
		if h.PID != 0 {
			dir := filepath.Join(proc, strconv.Itoa(h.PID))
			name, _ := os.ReadFile(filepath.Join(dir, "comm")) // nil if the process has just ended
			groups, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
			h.Name, h.Unit, h.Container = strings.TrimSpace(string(name)), parseUnit(string(groups)), parseContainer(string(groups))
		}
		all = append(all, h)
	}
	return all, nil
}

// parseUnit returns the unit in proc_pid_cgroup(5), from the unified hierarchy or else from
// systemd's own.
func parseUnit(text string) string {
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 || fields[1] != "" && fields[1] != "name=systemd" {
			continue
		}
		for _, part := range slices.Backward(strings.Split(fields[2], "/")) {
			if strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope") {
				return part
			}
		}
	}
	return ""
}

// isLittleEndian is the byte order of this machine. s390x is big-endian.
var isLittleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// isQuiet reports whether a nameserver has answered all UDP queries: nothing is unread at port 53,
// and no socket waits for its upstreams. dnsmasq closes each of these sockets after the answer.
// With a fixed query-port it keeps one, and then isQuiet is never true.
func isQuiet(unit string) (bool, error) {
	held, err := holders("/proc")
	if err != nil {
		return false, err
	}
	mine := map[uint64]bool{}
	for _, h := range held {
		if h.Unit == unit {
			for _, inode := range socketsOf("/proc", h.PID) {
				mine[inode] = true
			}
		}
	}
	sockets, err := readSockets("/proc")
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(sockets, func(s socket) bool {
		return s.proto == "udp" && mine[s.inode] && (s.local.Port() != portDNS || s.unread > 0)
	}), nil
}

// hasNoConnections reports whether no client is connected to these addresses.
func hasNoConnections(at []netip.AddrPort) (bool, error) {
	sockets, err := readSockets("/proc")
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(sockets, func(s socket) bool {
		return s.proto == "tcp" && (s.state == tcpEstablished || s.state == tcpCloseWait) && slices.ContainsFunc(at, func(a netip.AddrPort) bool { return isAt(s.local, a) })
	}), nil
}

// listensTCP returns the addresses where a unit listens for TCP on port 53.
func listensTCP(unit string) (at []netip.AddrPort, err error) {
	held, err := holders("/proc")
	for _, h := range held {
		if h.Unit == unit && h.Proto == "tcp" && h.Addr.Port() == portDNS {
			at = append(at, h.Addr)
		}
	}
	return at, err
}

// holdsAll reports whether a unit has UDP and TCP of all addresses. Without addresses, any port 53
// is enough.
func holdsAll(unit string, at []netip.AddrPort) bool {
	held, err := holders("/proc")
	if err != nil {
		return false
	}
	has := func(proto string, covers func(Holder) bool) bool {
		return slices.ContainsFunc(held, func(h Holder) bool { return h.Unit == unit && h.Proto == proto && covers(h) })
	}
	for _, proto := range []string{"udp", "tcp"} {
		if !has(proto, func(h Holder) bool { return h.Addr.Port() == portDNS }) {
			return false
		}
		for _, a := range at {
			if !has(proto, func(h Holder) bool { return h.Covers(a) }) {
				return false
			}
		}
	}
	return true
}

// stillLocal returns the addresses that this host still has. A link may have disappeared since the
// plan was made, and a step would wait for it forever.
func stillLocal(at []netip.AddrPort) []netip.AddrPort {
	return slices.DeleteFunc(slices.Clone(at), func(a netip.AddrPort) bool { return !isLocal(a.Addr()) })
}

// isLocal reports whether this host has an address.
func isLocal(addr netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(addrs, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Unmap() == addr.Unmap().WithZone("")
	})
}
