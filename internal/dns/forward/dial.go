package forward

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// DialUDP connects to a plain server as its questions do. It does not wait.
func (f *Forward) DialUDP(ctx context.Context, to nameserver.Server) (net.Conn, error) {
	return dialServer(ctx, "udp", to, *f.udp.Load())
}

// dialServer connects to a plain server, over "udp" or "tcp", from the source and by the interface that it has, and over UDP from
// the ports of udp. Over UDP it does not wait.
func dialServer(ctx context.Context, network string, to nameserver.Server, udp UDP) (net.Conn, error) {
	if network == "udp" && udp.hasPorts() {
		return dialFrom(ctx, to, udp)
	}
	return dialBy(ctx, network, to, 0)
}

// dialBy connects from a port; 0: from one that the kernel picks.
func dialBy(ctx context.Context, network string, to nameserver.Server, port uint16) (net.Conn, error) {
	if network == "udp" && to.Interface == "" && !to.Source.IsValid() {
		var from *net.UDPAddr
		if port != 0 {
			from = &net.UDPAddr{Port: int(port)}
		}
		return net.DialUDP("udp", from, net.UDPAddrFromAddrPort(to.Addr)) // without the costs of a Dialer
	}
	return dialerBy(network, to, port).DialContext(ctx, network, to.Addr.String())
}

// dialerBy has the source and the interface of a server.
func dialerBy(network string, to nameserver.Server, port uint16) *net.Dialer {
	dialer := &net.Dialer{}
	if port != 0 {
		dialer.LocalAddr = &net.UDPAddr{Port: int(port)}
	}
	if to.Interface != "" {
		dialer.Control = bindTo(to.Interface)
	}
	if to.Source.IsValid() {
		dialer.LocalAddr = &net.UDPAddr{IP: to.Source.AsSlice(), Zone: to.Source.Zone(), Port: int(port)}
		if network == "tcp" {
			dialer.LocalAddr = &net.TCPAddr{IP: to.Source.AsSlice(), Zone: to.Source.Zone()}
		}
	}
	return dialer
}

func bindTo(device string) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var err error
		if controlErr := c.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), device) }); controlErr != nil {
			return controlErr
		}
		if err != nil {
			return fmt.Errorf("binding to %s: %w", device, err)
		}
		return nil
	}
}

// MayBind says why the server's interface cannot be bound to, now or ever: without CAP_NET_RAW Linux lets nobody do it
// before 5.7 (c427bfec18f2). An interface that does not exist may come; nil then too.
func MayBind(to nameserver.Server) error {
	if to.Interface == "" {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening a socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.BindToDevice(fd, to.Interface); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("binding to %s: %w", to.Interface, err)
	}
	return nil
}

// UDP is how questions go over UDP. The zero value: from ports that the kernel picks, for responses of at most 1232 octets.
type UDP struct {
	// Low and High are the first and the last of the ports that questions leave from, where a firewall lets no others
	// pass (dnsmasq's min-port and max-port). Few of them make responses easy to forge (CVE-2008-1447). High 0: the
	// kernel picks one.
	Low, High uint16
	// Size is the largest response that is asked for, in octets (dnsmasq's edns-packet-max). 0: 1232.
	Size uint16
	// Cookies has servers that speak them asked with DNS Cookies (RFC 7873).
	Cookies bool
	// MixedCase has the letters of questions in a case that is drawn for each, which responses must have too (unbound's
	// use-caps-for-id). A server that answers in another case is asked over TCP, and in lower case then.
	MixedCase bool
}

// defaultUDPSize is what passes without fragments everywhere (DNS Flag Day 2020, RFC 9715 section 3.1).
const defaultUDPSize = 1232

func (u UDP) hasPorts() bool { return u.High != 0 }

// SetUDP replaces Config.UDP, for the questions that are not on their way yet.
func (f *Forward) SetUDP(u UDP) {
	if u.Size == 0 {
		u.Size = defaultUDPSize
	}
	f.udp.Store(&u)
}

// maxDraws is how many ports are tried where others hold those that were drawn. With three quarters of 1024 ports held, one
// question in 10,000 finds none.
const maxDraws = 32

// errNoPort says that no port that was drawn could be bound.
var errNoPort = errors.New("no port between min-port and max-port is free")

// dialFrom connects over UDP from a random port of the range, a new one for each question.
func dialFrom(ctx context.Context, to nameserver.Server, udp UDP) (net.Conn, error) {
	for range maxDraws {
		conn, err := dialBy(ctx, "udp", to, udp.draw())
		if errno := syscall.Errno(0); !errors.As(err, &errno) || !isTaken(errno) {
			return conn, err
		}
	}
	return nil, fmt.Errorf("%w: %w", errNoPort, syscall.EADDRNOTAVAIL)
}

// isTaken reports whether bind(2) failed because of the port, so that another port may do. EACCES: SELinux reserves ports for
// other services (name_bind), 690 UDP ports of 1024 to 32767 and 61000 to 65535 in RHEL 9's policy.
func isTaken(errno syscall.Errno) bool {
	return errno == syscall.EADDRINUSE || errno == syscall.EACCES
}

// draw draws a port from the kernel's generator, as newID does an ID.
func (u UDP) draw() uint16 {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails since Go 1.24: it ends the program instead
	count := uint32(u.High) - uint32(u.Low) + 1
	return u.Low + uint16(binary.BigEndian.Uint32(random[:])%count)
}

// errTooLong cannot come of a question: 65535 octets are 256 names.
var errTooLong = errors.New("message longer than 65535 octets")

// askTCP asks over a connection of its own.
func (f *Forward) askTCP(ctx context.Context, to *server, w *waiter) (*dns.Msg, error) {
	conn, err := dialServer(ctx, "tcp", to.Server, UDP{})
	if err != nil {
		return nil, err
	}
	to.reached()
	defer conn.Close()
	defer endWith(ctx, conn)()
	setID(w.query, newID())
	if err := writeMessage(conn, w.query); err != nil {
		return nil, err
	}
	for range mostIgnored {
		msg, err := f.receiveTCP(ctx, conn, w.query, w.spent)
		if !errors.Is(err, errIgnored) {
			return msg, err
		}
		f.counts.ignored.Add(1)
	}
	return nil, errStrays
}

// mostIgnored is how many messages that are no response a connection may bring.
const mostIgnored = 16

// endWith makes what waits on conn return as soon as ctx ends. The function it
// returns must be called when conn is no longer waited on.
func endWith(ctx context.Context, conn net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0)) // fails on a closed one only
	})
}

// Bounds of long messages, of which each may have 64 KiB, and take sixteen times as much when it is read.
const (
	longMessage  = 4 << 10         // octets
	longTime     = 2 * time.Second // for all of a long message but its first longMessage octets
	mostReceived = 128             // that come in at a time, perhaps slowly
	mostRead     = 8               // that are read at a time, where there are processors enough
)

// readAtATime is how many long messages are read at a time, by the number of processors: half of them, where there are several, have time for
// other clients. A long message takes up to 3 ms, in which a processor does nothing else.
func readAtATime(processors int) int { return max(1, min(mostRead, processors/2)) }

// errIgnored is a message that is no response to the question.
var errIgnored = errors.New("another message")

// receiveTCP returns the next message if it is the response to the query.
func (f *Forward) receiveTCP(ctx context.Context, conn net.Conn, query []byte, spent *spending) (*dns.Msg, error) {
	size, err := readLength(conn)
	if err != nil {
		return nil, err
	}
	response := make([]byte, min(size, longMessage))
	if _, err := io.ReadFull(conn, response); err != nil {
		return nil, err
	}
	if size > longMessage {
		select {
		case f.received <- struct{}{}:
			defer func() { <-f.received }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if response, err = readRest(conn, response, size); err != nil {
			return nil, err
		}
	}
	spent.add(size)
	if size > longMessage {
		f.read <- struct{}{}
		defer func() { <-f.read }()
	}
	msg, err := decodeStream(query, response)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errIgnored, err)
	}
	return msg, nil
}

// readRest reads the rest of a long message, of size octets in all. A server that sends it slowly does not hold a place for long.
func readRest(conn net.Conn, begin []byte, size int) (whole []byte, err error) {
	if err := conn.SetReadDeadline(time.Now().Add(longTime)); err != nil {
		return nil, err
	}
	whole = make([]byte, size)
	_, err = io.ReadFull(conn, whole[copy(whole, begin):])
	return whole, err
}

// writeMessage writes the length and the message in one segment (RFC 7766
// section 8).
func writeMessage(w io.Writer, msg []byte) error {
	if len(msg) > math.MaxUint16 {
		return errTooLong
	}
	framed := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(msg)), uint16(len(msg)))
	_, err := w.Write(append(framed, msg...))
	return err
}

func readLength(r io.Reader) (int, error) {
	var length [2]byte
	_, err := io.ReadFull(r, length[:])
	return int(binary.BigEndian.Uint16(length[:])), err
}

func readMessage(r io.Reader) ([]byte, error) {
	size, err := readLength(r)
	if err != nil {
		return nil, err
	}
	msg := make([]byte, size)
	if _, err := io.ReadFull(r, msg); err != nil {
		return nil, err
	}
	return msg, nil
}

// spending are the messages over TCP and TLS that came for a question, in octets. Those of a
// datagram are bounded by their size. It may be used concurrently; nil counts nothing.
type spending struct{ octets atomic.Int64 }

func (s *spending) add(octets int) {
	if s != nil {
		s.octets.Add(int64(octets))
	}
}

// charge tells what was spent on a client's question. Each who waits for the answer is charged in full: it would have been spent for it alone.
func (f *Forward) charge(client netip.Addr, s *spending) {
	if octets := s.octets.Load(); octets > 0 {
		f.spent(client, int(octets))
	}
}
