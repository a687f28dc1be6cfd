package firewall

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// udpPacket and tcpPacket are packets from a pod.
var udpPacket = Packet{
	Interface: "cni0", Index: 7, Port: 53, Protocol: unix.IPPROTO_UDP,
	Source: netip.MustParseAddr(podIP4), Destination: netip.MustParseAddr(nodeIP4),
}

func tcpPacket() Packet {
	p := udpPacket
	p.Protocol = unix.IPPROTO_TCP
	return p
}

// TestExtensions covers iptables matches that the iptables of these tests writes as expressions,
// but that of RHEL 8 does not.
func TestExtensions(t *testing.T) {
	ports := func(numbers ...uint16) (b []byte) {
		for _, n := range numbers {
			b = binary.NativeEndian.AppendUint16(b, n)
		}
		return b
	}
	const any = 0xffff
	for _, row := range []struct {
		name, match string
		info        []byte
		packet      Packet
		want        truth
	}{
		{"the port", "udp", append(ports(0, any, 53, 53), 0), udpPacket, yes},
		{"a range around it", "udp", append(ports(0, any, 50, 60), 0), udpPacket, yes},
		{"another port", "udp", append(ports(0, any, 54, 60), 0), udpPacket, no},
		{"all but the port", "udp", append(ports(0, any, 53, 53), 2), udpPacket, no},
		{"all but another port", "udp", append(ports(0, any, 54, 60), 2), udpPacket, yes},
		{"a source port", "udp", append(ports(53, 53, 0, any), 0), udpPacket, maybe},
		{"a source port, and another port", "udp", append(ports(53, 53, 54, 54), 0), udpPacket, no},
		{"too short", "udp", ports(0, any, 53, 53), udpPacket, maybe},
		{"of the other protocol", "udp", append(ports(0, any, 53, 53), 0), tcpPacket(), no},
		{"the port, of a SYN", "tcp", append(ports(0, any, 53, 53), 0, 0x17, 0x02, 0), tcpPacket(), yes},
		{"the port, of no SYN", "tcp", append(ports(0, any, 53, 53), 0, 0x17, 0x02, 4), tcpPacket(), no},
		{"the port, with an option", "tcp", append(ports(0, any, 53, 53), 8, 0, 0, 0), tcpPacket(), maybe},
		{"another port, with an option", "tcp", append(ports(0, any, 54, 54), 8, 0, 0, 0), tcpPacket(), no},
		{"a source port", "tcp", append(ports(53, 53, 53, 53), 0, 0, 0, 0), tcpPacket(), maybe},
		{"too short", "tcp", append(ports(0, any, 53, 53), 0, 0, 0), tcpPacket(), maybe},
		{"of the other protocol", "tcp", append(ports(0, any, 53, 53), 0, 0, 0, 0), udpPacket, no},
		{"unknown", "geoip", nil, udpPacket, maybe},
	} {
		t.Run(row.match+" "+row.name, func(t *testing.T) {
			s := step{evaluation: &evaluation{ruleset: &Ruleset{}, packet: row.packet}, registers: newRegisters()}
			a := attributes{unix.NFTA_MATCH_NAME: []byte(row.match + "\x00"), unix.NFTA_MATCH_INFO: row.info}
			if got := s.extension(a); got != row.want {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}

// attribute formats an attribute like the kernel.
func attribute(kind uint16, values ...[]byte) []byte {
	value := slices.Concat(values...)
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofNlAttr+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	return append(b, make([]byte, (4-len(b)%4)%4)...)
}

func word(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

func expressionOf(name string, attrs ...[]byte) []byte {
	return attribute(unix.NFTA_LIST_ELEM, attribute(unix.NFTA_EXPR_NAME, []byte(name+"\x00")), attribute(unix.NFTA_EXPR_DATA, attrs...))
}

func verdictOf(code int32) []byte {
	return expressionOf("immediate", attribute(unix.NFTA_IMMEDIATE_DREG, word(unix.NFT_REG_VERDICT)),
		attribute(unix.NFTA_IMMEDIATE_DATA, attribute(unix.NFTA_DATA_VERDICT, attribute(unix.NFTA_VERDICT_CODE, word(uint32(code))))))
}

// FuzzDecide proves for arbitrary rules that a packet that an earlier rule may accept is not
// reported as dropped, and that a packet that reaches no dropping rule is accepted.
func FuzzDecide(f *testing.F) {
	load := expressionOf("meta", attribute(unix.NFTA_META_KEY, word(unix.NFT_META_IIFNAME)), attribute(unix.NFTA_META_DREG, word(unix.NFT_REG_1)))
	compare := expressionOf("cmp", attribute(unix.NFTA_CMP_SREG, word(unix.NFT_REG_1)), attribute(unix.NFTA_CMP_OP, word(unix.NFT_CMP_EQ)),
		attribute(unix.NFTA_CMP_DATA, attribute(unix.NFTA_DATA_VALUE, []byte("cni0"))))
	f.Add(slices.Concat(load, compare, verdictOf(nfDrop)))
	f.Add(slices.Concat(load, verdictOf(nfAccept)))
	f.Add(verdictOf(unix.NFT_JUMP))
	f.Add(slices.Concat(expressionOf("payload", attribute(unix.NFTA_PAYLOAD_DREG, word(8)), attribute(unix.NFTA_PAYLOAD_BASE, word(1)),
		attribute(unix.NFTA_PAYLOAD_OFFSET, word(12)), attribute(unix.NFTA_PAYLOAD_LEN, word(4))),
		expressionOf("bitwise", attribute(unix.NFTA_BITWISE_SREG, word(8)), attribute(unix.NFTA_BITWISE_DREG, word(8)), attribute(unix.NFTA_BITWISE_LEN, word(4)),
			attribute(unix.NFTA_BITWISE_MASK, attribute(unix.NFTA_DATA_VALUE, word(0xff000000))), attribute(unix.NFTA_BITWISE_XOR, attribute(unix.NFTA_DATA_VALUE, word(0)))),
		expressionOf("lookup", attribute(unix.NFTA_LOOKUP_SET, []byte("s\x00")), attribute(unix.NFTA_LOOKUP_SREG, word(8)))))
	for _, name := range []string{"udp", "tcp", "multiport", "conntrack", "addrtype"} {
		f.Add(expressionOf("match", attribute(unix.NFTA_MATCH_NAME, []byte(name+"\x00")), attribute(unix.NFTA_MATCH_REV, word(3)), attribute(unix.NFTA_MATCH_INFO, make([]byte, 160))))
	}
	mayAccept, err := parseRule(slices.Concat(expressionOf("limit"), verdictOf(nfAccept)))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, encoded []byte) {
		r, err := parseRule(encoded)
		if err != nil {
			return
		}
		c := Chain{Family: Inet, Table: "filter", Name: "input"}
		var s set
		if err := s.add(encoded); err == nil {
			s.keyLen = 4
		}
		rules := Ruleset{Inputs: []Chain{c}, rules: map[place][]rule{c.place(): {mayAccept, r}}, sets: map[place]set{{Inet, "filter", "s"}: s}}
		if d := rules.Decide(udpPacket); d.Verdict == Drop {
			t.Errorf("got %+v, although the first rule may accept", d)
		}
		rules.rules[c.place()] = []rule{r}
		drops := slices.ContainsFunc(r, func(x expression) bool {
			return x.name == "immediate" || x.name == "reject" || x.name == "lookup" || x.name == "target" || x.name == "queue"
		})
		if d := rules.Decide(udpPacket); d.Verdict != Accept && !drops {
			t.Errorf("got %+v, although nothing drops", d)
		}
	})
}

// TestString proves that chains are named as in nft(8).
func TestString(t *testing.T) {
	for family, want := range map[Family]string{
		Inet: "chain input of table inet filter", IPv4: "chain input of table ip filter", IPv6: "chain input of table ip6 filter", 99: "chain input of table family 99 filter",
	} {
		if got := (Chain{Family: family, Table: "filter", Name: "input"}).String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
