package firewall

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Verdict is the fate of a packet.
type Verdict int

const (
	Accept  Verdict = iota // reaches this host's programs
	Drop                   // dropped or rejected
	Unknown                // dropped, unless a rule that could not be evaluated accepts it
)

// Decision is a Verdict with its reason.
type Decision struct {
	Verdict Verdict
	Chain   Chain  // base chain that drops the packet or may drop it; zero for Accept
	Why     string // for Unknown: the first rule that could not be evaluated, and the reason
}

// Decide evaluates the rules for a packet. It is pure. In doubt it does not report a drop: a rule
// that cannot be evaluated (a mark, a rate limit, an extension of iptables) may accept, but never
// drops.
//
// It assumes that the packet starts a conversation, and that earlier hooks neither changed nor
// redirected it. Only the input hook is evaluated.
func (r *Ruleset) Decide(p Packet) Decision {
	var doubt Decision
	for _, c := range r.Inputs {
		if !p.isSeenBy(c.Family) {
			continue
		}
		e := evaluation{ruleset: r, packet: p, known: map[place]passage{}}
		passed := e.walk(c.place(), 0)
		if passed.end == accepts || passed.end == next && !c.Drop {
			continue
		}
		if passed.doubt == "" {
			return Decision{Verdict: Drop, Chain: c}
		}
		if doubt.Verdict == Accept {
			doubt = Decision{Unknown, c, passed.doubt}
		}
	}
	return doubt
}

// evaluation is the evaluation of one packet.
type evaluation struct {
	ruleset *Ruleset
	packet  Packet
	known   map[place]passage // results, by chain
}

// outcome is the result of a chain.
type outcome int

const (
	next    outcome = iota // undecided: the calling chain continues, or the policy applies
	accepts                // the packet passes this base chain
	drops
)

// passage is a walk through a chain, assuming that rules that could not be evaluated do not match.
type passage struct {
	end   outcome
	doubt string // first rule that might have accepted the packet earlier; empty if there is none
}

func (p *passage) add(doubt string) {
	if p.doubt == "" {
		p.doubt = doubt
	}
}

// maxDepth limits nested jumps, like NFT_JUMP_STACK_SIZE in the kernel.
const maxDepth = 16

// walk evaluates a chain once, however many rules jump to it.
func (e *evaluation) walk(chain place, depth int) passage {
	if p, ok := e.known[chain]; ok {
		return p
	}
	if depth > maxDepth {
		return passage{doubt: fmt.Sprintf("chain %s: too many jumps", chain.name)}
	}
	p := e.walkRules(chain, depth)
	e.known[chain] = p
	return p
}

func (e *evaluation) walkRules(chain place, depth int) passage {
	var p passage
	for i, r := range e.ruleset.rules[chain] {
		m := e.match(chain, r)
		if m.is == no || m.verdict.kind == undecided {
			continue
		}
		doubt := fmt.Sprintf("chain %s, rule %d: %s", chain.name, i+1, m.why)
		switch m.verdict.kind {
		case finally:
			if m.is == yes {
				p.end = m.verdict.end
				return p
			}
			if m.verdict.end == accepts {
				p.add(doubt)
			}
		case leave:
			if m.is == yes {
				return p
			}
			p.add(doubt)
		case jump, goTo:
			inner := e.walk(place{chain.family, chain.table, m.verdict.chain}, depth+1)
			away := m.verdict.kind == goTo && inner.end == next // the rest of this chain is skipped
			if m.is == yes {
				p.add(inner.doubt)
				if away || inner.end != next {
					p.end = inner.end
					return p
				}
			} else if away || inner.end == accepts || inner.doubt != "" {
				p.add(doubt)
			}
		case anything:
			p.add(doubt)
			if m.is == yes {
				p.end = drops
				return p
			}
		}
	}
	return p
}

// verdict is the decision of a rule that matches.
type verdict struct {
	kind  kind
	end   outcome // set for finally
	chain string  // set for jump and goTo
}

type kind int

const (
	undecided kind = iota // continue with the next rule
	finally
	leave // leave this chain ("return")
	jump
	goTo
	anything // unknown: a program decides, or a map with an unknown key
)

// parseVerdict reads NFTA_DATA_VERDICT.
func parseVerdict(a attributes) verdict {
	code, ok := a.number(unix.NFTA_VERDICT_CODE)
	if !ok {
		return verdict{kind: anything}
	}
	chain := a.text(unix.NFTA_VERDICT_CHAIN)
	switch int32(code) {
	case unix.NFT_CONTINUE:
		return verdict{}
	case unix.NFT_RETURN:
		return verdict{kind: leave}
	case unix.NFT_JUMP:
		return verdict{kind: jump, chain: chain}
	case unix.NFT_GOTO:
		return verdict{kind: goTo, chain: chain}
	case nfDrop:
		return verdict{kind: finally, end: drops}
	case nfAccept:
		return verdict{kind: finally, end: accepts}
	}
	return verdict{kind: anything}
}

// Verdicts of netfilter (linux/netfilter.h).
const (
	nfDrop   = 0
	nfAccept = 1
)
