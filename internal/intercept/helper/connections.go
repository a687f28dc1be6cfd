package helper

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/intercept"
)

// Connection tracking remembers the translation of a client's port after its rule is gone, and each
// query from that port extends this. So a client that keeps its socket would never reach the
// cluster's DNS pods. kube-proxy deletes such entries, too.

// left is a translated address without rules, whose clients may still be translated.
type left struct {
	served
	since   time.Time
	deleted bool // its clients are not translated any more
}

// leave notes which addresses lose their translation, and which get it.
func (h *helper) leave(before, after []served) {
	h.left = slices.DeleteFunc(h.left, func(l left) bool { return slices.Contains(after, l.served) })
	for _, s := range before {
		if !slices.Contains(after, s) {
			h.addLeft(s)
		}
	}
}

func (h *helper) addLeft(s served) {
	isSame := func(l left) bool { return l.served == s }
	if s.mode == intercept.Translated && s.node.IsValid() && !slices.ContainsFunc(h.left, isSame) {
		h.left = append(h.left, left{served: s, since: time.Now()})
	}
}

// forget deletes translations of clients: soon if node-dns does not answer. If it has changed its
// request, it still answers queries that it has received. forget does not wait for the deletion,
// which takes seconds for a large table.
func (h *helper) forget(now time.Time) {
	if h.forgetting != nil {
		select {
		case <-h.forgetting:
			h.forgetting = nil
		default:
			return
		}
	}
	h.left = slices.DeleteFunc(h.left, func(l left) bool { return l.deleted && !slices.Contains(h.request.Addrs, l.addr) })
	var due []served
	for i, l := range h.left {
		wait := lingerFor
		if slices.Contains(h.request.Addrs, l.addr) && !slices.ContainsFunc(h.rules, func(s served) bool { return s.addr == l.addr }) {
			wait = lookSoon
		}
		if !l.deleted && now.Sub(l.since) >= wait {
			due, h.left[i].deleted = append(due, l.served), true
		}
	}
	if len(due) == 0 {
		return
	}
	done := make(chan struct{})
	h.forgetting = done
	go func() {
		defer close(done)
		if err := deleteConnections(due); err != nil {
			h.Log.Warn("clients that keep their sockets may still query node-dns", "error", err)
		}
	}()
}

// isForgetting reports whether translations of clients remain.
func (h *helper) isForgetting() bool {
	return h.forgetting != nil || slices.ContainsFunc(h.left, func(l left) bool { return !l.deleted })
}

// forgetNow is forget at the end of the helper. While the request stands, another helper follows.
func (h *helper) forgetNow() {
	h.awaitForgotten()
	if len(h.request.Addrs) == 0 {
		h.forget(time.Now().Add(lingerFor))
		h.awaitForgotten()
	}
}

func (h *helper) awaitForgotten() {
	if h.forgetting != nil {
		<-h.forgetting
		h.forgetting = nil
	}
}

// deleteConnections deletes the entries of connection tracking for UDP queries to these addresses
// that were translated to node-dns. There may be as many as queries of two minutes, so it keeps
// none.
func deleteConnections(list []served) error {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return fmt.Errorf("opening connection tracking: %w", err)
	}
	defer conn.Close()
	var errs []error
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		of := slices.DeleteFunc(slices.Clone(list), func(s served) bool { return s.addr.Is4() != (family == unix.AF_INET) })
		if len(of) == 0 {
			continue
		}
		all := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|nl.IPCTNL_MSG_CT_GET, unix.NLM_F_DUMP)
		all.AddData(&nl.Nfgenmsg{NfgenFamily: family, Version: nl.NFNETLINK_V0})
		var failed error // of the last entry that could not be deleted
		err := all.ExecuteIter(unix.NETLINK_NETFILTER, 0, func(message []byte) bool {
			entry := message[nl.SizeofNfgenmsg:]
			if slices.ContainsFunc(of, func(s served) bool { return bytes.Contains(entry, s.addr.AsSlice()) && isOf(entry, s) }) {
				if err := deleteConnection(conn, message); err != nil {
					failed = fmt.Errorf("deleting a connection: %w", err)
				}
			}
			return true
		})
		if err != nil && !errors.Is(err, nl.ErrDumpInterrupted) {
			errs = append(errs, fmt.Errorf("listing connections: %w", err))
		}
		errs = append(errs, failed)
	}
	return errors.Join(errs...)
}

// deleteConnection deletes the entry that is described by a message of a dump.
func deleteConnection(conn *netlink.Conn, message []byte) error {
	_, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_CTNETLINK<<8 | nl.IPCTNL_MSG_CT_DELETE, Flags: netlink.Request | netlink.Acknowledge},
		Data:   message,
	})
	if errors.Is(err, unix.ENOENT) { // it has expired
		return nil
	}
	return err
}

// isOf reports whether an entry is that of a UDP query to s.addr, which was translated to s.node.
func isOf(entry []byte, s served) bool {
	var query, response tuple
	attributes, err := netlink.NewAttributeDecoder(entry)
	if err != nil {
		return false
	}
	for attributes.Next() {
		switch attributes.Type() {
		case nl.CTA_TUPLE_ORIG:
			attributes.Nested(query.decode)
		case nl.CTA_TUPLE_REPLY:
			attributes.Nested(response.decode)
		}
	}
	return attributes.Err() == nil && query.proto == unix.IPPROTO_UDP && query.dst == netip.AddrPortFrom(s.addr, port) && response.src == s.node
}

// tuple is one direction of a connection.
type tuple struct {
	src   netip.Addr
	dst   netip.AddrPort
	proto uint8
}

// decode decodes a nested CTA_TUPLE_ORIG or CTA_TUPLE_REPLY
// (linux/netfilter/nfnetlink_conntrack.h).
func (t *tuple) decode(attributes *netlink.AttributeDecoder) error {
	var dst netip.Addr
	var at uint16
	for attributes.Next() {
		switch attributes.Type() {
		case nl.CTA_TUPLE_IP:
			attributes.Nested(func(ip *netlink.AttributeDecoder) error {
				for ip.Next() {
					addr, _ := netip.AddrFromSlice(ip.Bytes())
					switch ip.Type() {
					case nl.CTA_IP_V4_SRC, nl.CTA_IP_V6_SRC:
						t.src = addr
					case nl.CTA_IP_V4_DST, nl.CTA_IP_V6_DST:
						dst = addr
					}
				}
				return ip.Err()
			})
		case nl.CTA_TUPLE_PROTO:
			attributes.Nested(func(proto *netlink.AttributeDecoder) error {
				proto.ByteOrder = binary.BigEndian
				for proto.Next() {
					switch proto.Type() {
					case nl.CTA_PROTO_NUM:
						t.proto = proto.Uint8()
					case nl.CTA_PROTO_DST_PORT:
						at = proto.Uint16()
					}
				}
				return proto.Err()
			})
		}
	}
	t.dst = netip.AddrPortFrom(dst, at)
	return attributes.Err()
}
