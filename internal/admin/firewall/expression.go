package firewall

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// truth tells whether an expression or a rule matches.
type truth int

const (
	no truth = iota
	yes
	maybe
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// matched is the result of a rule.
type matched struct {
	is      truth
	verdict verdict
	why     string // first expression that could not be evaluated; empty if there is none
}

// match runs a rule.
func (e *evaluation) match(chain place, r rule) matched {
	s := step{evaluation: e, chain: chain, registers: newRegisters()}
	m := matched{is: yes}
	for _, x := range r {
		switch s.run(x) {
		case no:
			return matched{is: no}
		case maybe:
			if m.is == yes {
				m.is, m.why = maybe, x.label()
			}
		}
		if s.verdict.kind == anything && m.why == "" {
			m.why = x.label()
		}
		if s.verdict.kind != undecided {
			break
		}
	}
	m.verdict = s.verdict
	return m
}

// label names an expression for Decision.Why.
func (x expression) label() string {
	switch x.name {
	case "match", "target": // of iptables
		return x.name + " " + x.attrs.text(unix.NFTA_MATCH_NAME)
	case "lookup":
		return "set " + x.attrs.text(unix.NFTA_LOOKUP_SET)
	}
	return x.name
}

// step is the state in which an expression of a rule runs.
type step struct {
	*evaluation
	chain     place
	registers registers
	verdict   verdict
}

// expressions are the known expressions (net/netfilter/nft_*.c).
var expressions = map[string]func(*step, attributes) truth{
	"meta":      (*step).meta,
	"payload":   (*step).payload,
	"ct":        (*step).ct,
	"fib":       (*step).fib,
	"immediate": (*step).immediate,
	"bitwise":   (*step).bitwise,
	"cmp":       (*step).cmp,
	"range":     (*step).inRange,
	"lookup":    (*step).lookup,
	"match":     (*step).extension,
	"target":    (*step).target,
	"reject":    decides(verdict{kind: finally, end: drops}),
	"queue":     decides(verdict{kind: anything}),
	"counter":   (*step).pass,
	"log":       (*step).pass,
	"notrack":   (*step).pass,
	"last":      (*step).pass,
}

// pass matches, and decides nothing.
func (s *step) pass(attributes) truth { return yes }

// decides returns an expression that always has this verdict.
func decides(v verdict) func(*step, attributes) truth {
	return func(s *step, _ attributes) truth {
		s.verdict = v
		return yes
	}
}

// run runs one expression. An unknown one may match, and makes all registers unknown.
func (s *step) run(x expression) truth {
	if run := expressions[x.name]; run != nil {
		return run(s, x.attrs)
	}
	return s.unknown()
}

func (s *step) unknown() truth {
	clear(s.registers.known)
	return maybe
}

// load stores a value in a register.
func (s *step) load(register uint32, what octets) truth {
	if !s.registers.load(register, what) {
		return s.unknown()
	}
	return yes
}

// meta loads metadata of the packet. With a source register it sets metadata, and always matches.
func (s *step) meta(a attributes) truth {
	if _, sets := a.number(unix.NFTA_META_SREG); sets {
		return yes
	}
	family, etherType := certain(unix.NFPROTO_IPV4), certain(0x08, 0x00)
	if s.packet.Source.Is6() {
		family, etherType = certain(unix.NFPROTO_IPV6), certain(0x86, 0xdd)
	}
	value := newOctets(4) // unknown
	switch a.orZero(unix.NFTA_META_KEY) {
	case unix.NFT_META_IIF:
		value = native32(uint32(s.packet.Index))
	case unix.NFT_META_IIFNAME:
		name := make([]byte, unix.IFNAMSIZ)
		copy(name, s.packet.Interface)
		value = certain(name...)
	case unix.NFT_META_L4PROTO:
		value = certain(s.packet.Protocol)
	case unix.NFT_META_NFPROTO:
		value = family
	case unix.NFT_META_PROTOCOL:
		value = etherType
	case unix.NFT_META_OIFNAME:
		value = newOctets(unix.IFNAMSIZ)
	}
	return s.load(a.orZero(unix.NFTA_META_DREG), value)
}

// payload loads bytes of the packet.
func (s *step) payload(a attributes) truth {
	if _, writes := a.number(unix.NFTA_PAYLOAD_SREG); writes {
		return s.unknown()
	}
	register := a.orZero(unix.NFTA_PAYLOAD_DREG)
	offset, size := int(a.orZero(unix.NFTA_PAYLOAD_OFFSET)), int(a.orZero(unix.NFTA_PAYLOAD_LEN))
	var header octets
	switch a.orZero(unix.NFTA_PAYLOAD_BASE) {
	case unix.NFT_PAYLOAD_NETWORK_HEADER:
		header = s.packet.network()
	case unix.NFT_PAYLOAD_TRANSPORT_HEADER:
		header = s.packet.transport()
	}
	if offset > len(header.data) || size > len(header.data)-offset {
		return s.unknown()
	}
	return s.load(register, octets{header.data[offset : offset+size], header.known[offset : offset+size]})
}

// stateNew is the state of the first packet of a conversation (NF_CT_STATE_BIT(IP_CT_NEW)).
const stateNew = 1 << 3

// ct loads the state of connection tracking for a new conversation.
func (s *step) ct(a attributes) truth {
	if _, sets := a.number(unix.NFTA_CT_SREG); sets {
		return yes
	}
	register := a.orZero(unix.NFTA_CT_DREG)
	switch a.orZero(unix.NFTA_CT_KEY) {
	case unix.NFT_CT_STATE:
		return s.load(register, native32(stateNew))
	case unix.NFT_CT_STATUS: // neither redirected (IPS_DST_NAT) nor confirmed
		return s.load(register, native32(0))
	case unix.NFT_CT_DIRECTION: // original direction
		return s.load(register, certain(0))
	}
	return s.unknown() // values differ in size
}

// fib looks up an address in the routing tables. The destination is an address of this host
// (RTN_LOCAL).
func (s *step) fib(a attributes) truth {
	register, flags := a.orZero(unix.NFTA_FIB_DREG), a.orZero(unix.NFTA_FIB_FLAGS)
	const wider = unix.NFTA_FIB_F_SADDR | unix.NFTA_FIB_F_IIF | unix.NFTA_FIB_F_OIF
	if a.orZero(unix.NFTA_FIB_RESULT) == unix.NFT_FIB_RESULT_ADDRTYPE && flags&wider == 0 {
		return s.load(register, native32(unix.RTN_LOCAL))
	}
	return s.unknown()
}

// immediate loads a constant or a verdict.
func (s *step) immediate(a attributes) truth {
	data := a.nested(unix.NFTA_IMMEDIATE_DATA)
	if register := a.orZero(unix.NFTA_IMMEDIATE_DREG); register != unix.NFT_REG_VERDICT {
		return s.load(register, certain(data[unix.NFTA_DATA_VALUE]...))
	}
	s.verdict = parseVerdict(data.nested(unix.NFTA_DATA_VERDICT))
	return yes
}

const bitwiseOp = 6 // NFTA_BITWISE_OP, since Linux 5.6: 0 is mask and xor, the others shift

func (s *step) bitwise(a attributes) truth {
	size := int(a.orZero(unix.NFTA_BITWISE_LEN))
	mask, xor := a.value(unix.NFTA_BITWISE_MASK), a.value(unix.NFTA_BITWISE_XOR)
	from, ok := s.registers.part(a.orZero(unix.NFTA_BITWISE_SREG), size)
	if !ok || a.orZero(bitwiseOp) != unix.NFT_BITWISE_BOOL || len(mask) != size || len(xor) != size {
		return s.unknown()
	}
	to := newOctets(size)
	for i := range size {
		if from.known[i] || mask[i] == 0 {
			to.set(i, from.data[i]&mask[i]^xor[i])
		}
	}
	return s.load(a.orZero(unix.NFTA_BITWISE_DREG), to)
}

func (s *step) cmp(a attributes) truth {
	data := a.value(unix.NFTA_CMP_DATA)
	have, ok := s.registers.part(a.orZero(unix.NFTA_CMP_SREG), len(data))
	if !ok || len(data) == 0 || !have.isKnown() {
		return maybe
	}
	order := bytes.Compare(have.data, data)
	switch a.orZero(unix.NFTA_CMP_OP) {
	case unix.NFT_CMP_EQ:
		return truthOf(order == 0)
	case unix.NFT_CMP_NEQ:
		return truthOf(order != 0)
	case unix.NFT_CMP_LT:
		return truthOf(order < 0)
	case unix.NFT_CMP_LTE:
		return truthOf(order <= 0)
	case unix.NFT_CMP_GT:
		return truthOf(order > 0)
	case unix.NFT_CMP_GTE:
		return truthOf(order >= 0)
	}
	return maybe
}

func (s *step) inRange(a attributes) truth {
	from, to := a.value(unix.NFTA_RANGE_FROM_DATA), a.value(unix.NFTA_RANGE_TO_DATA)
	have, ok := s.registers.part(a.orZero(unix.NFTA_RANGE_SREG), len(from))
	if !ok || len(from) == 0 || len(to) != len(from) || !have.isKnown() {
		return maybe
	}
	within := bytes.Compare(have.data, from) >= 0 && bytes.Compare(have.data, to) <= 0
	return truthOf(within == (a.orZero(unix.NFTA_RANGE_OP) == unix.NFT_RANGE_EQ))
}

// lookup searches a set for a register's value. In a map it loads the value of that key, which may
// be a verdict.
func (s *step) lookup(a attributes) truth {
	in, exists := s.ruleset.sets[place{s.chain.family, s.chain.table, a.text(unix.NFTA_LOOKUP_SET)}]
	key, ok := s.registers.part(a.orZero(unix.NFTA_LOOKUP_SREG), in.keyLen)
	register, isMap := a.number(unix.NFTA_LOOKUP_DREG)
	var found *element
	is := maybe
	if exists && ok && key.isKnown() {
		found, is = in.find(key.data)
	}
	switch {
	case is == maybe && isMap && register == unix.NFT_REG_VERDICT:
		s.verdict = verdict{kind: anything}
		return maybe
	case is == maybe:
		return s.unknown()
	case !isMap:
		return truthOf(is == yes != (a.orZero(unix.NFTA_LOOKUP_FLAGS)&unix.NFT_LOOKUP_F_INV != 0))
	case is == no:
		return no
	case register == unix.NFT_REG_VERDICT:
		s.verdict = parseVerdict(found.data.nested(unix.NFTA_DATA_VERDICT))
		return yes
	}
	return s.load(register, certain(found.data[unix.NFTA_DATA_VALUE]...))
}

// Flags of sets and elements that package unix does not have (linux/netfilter/nf_tables.h).
const (
	setConcat       = 0x80
	elementCatchall = 0x2
)

// find searches for a key. The result is maybe if rules change the set, or it is not completely
// known.
func (s set) find(key []byte) (*element, truth) {
	if s.flags&unix.NFT_SET_EVAL != 0 || s.flags&setConcat != 0 && s.flags&unix.NFT_SET_INTERVAL != 0 || len(key) == 0 {
		return nil, maybe
	}
	var best, rest *element
	for i := range s.elements {
		x := &s.elements[i]
		switch order := bytes.Compare(x.key, key); {
		case x.any:
			rest = x
		case len(x.key) != len(key) || x.keyEnd != nil:
			return nil, maybe
		case s.flags&unix.NFT_SET_INTERVAL == 0 && order == 0:
			best = x
		case s.flags&unix.NFT_SET_INTERVAL != 0 && order <= 0 && isAfter(x, best):
			best = x
		}
	}
	if best != nil && best.end {
		best = nil // the key is after that interval
	}
	if best == nil {
		best = rest
	}
	if s.partial {
		return nil, maybe
	}
	return best, truthOf(best != nil)
}

// isAfter reports whether x follows another element of a set of intervals. If one interval ends
// where the next one begins, two elements have the same key.
func isAfter(x, than *element) bool {
	if than == nil {
		return true
	}
	order := bytes.Compare(x.key, than.key)
	return order > 0 || order == 0 && !x.end
}
