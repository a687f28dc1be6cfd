package firewall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/netstate"
)

const (
	// maxTries limits retries when the rules change during a read.
	maxTries = 5
	// maxRules limits the rules in all chains that a packet to this host can reach.
	maxRules = 50_000
	// maxElements limits the elements kept per set.
	maxElements = 20_000
	// kernelTimeout is the time limit of one request.
	kernelTimeout = 2 * time.Second
)

// errTooMany means that maxRules was exceeded.
var errTooMany = errors.New("too many rules")

// readRuleset reads the rules of the calling thread's network namespace. It changes nothing.
// Without CAP_NET_ADMIN the error matches os.ErrPermission.
func readRuleset(ctx context.Context) (*Ruleset, error) {
	var err error
	for range maxTries {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("reading nftables: %w", err)
		}
		var r *Ruleset
		r, err = readOnce(ctx)
		if err == nil {
			return r, nil
		}
		// If a chain or a set disappeared, the rules also changed.
		if !errors.Is(err, nl.ErrDumpInterrupted) && !errors.Is(err, unix.ENOENT) {
			break
		}
	}
	return nil, fmt.Errorf("reading nftables: %w", err)
}

func readOnce(ctx context.Context) (*Ruleset, error) {
	socket, err := netstate.DialNetlink(ctx, unix.NETLINK_NETFILTER, kernelTimeout)
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	c := conn{socket}
	r := &Ruleset{rules: map[place][]rule{}, sets: map[place]set{}}
	dormant, err := c.dormant()
	if err != nil {
		return nil, fmt.Errorf("tables: %w", err)
	}
	err = c.dump(unix.NFT_MSG_GETCHAIN, unix.NFT_MSG_NEWCHAIN, unix.NFPROTO_UNSPEC, nil, func(f Family, a attributes) error {
		chain, hook, ok := baseChain(f, a)
		switch isActive := ok && !dormant[place{family: f, table: chain.Table}]; {
		case isActive && hook == unix.NF_INET_LOCAL_IN:
			r.Inputs = append(r.Inputs, chain)
		case isActive && hook == unix.NF_INET_LOCAL_OUT:
			r.Outputs = append(r.Outputs, chain)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("chains: %w", err)
	}
	slices.SortStableFunc(r.Inputs, func(a, b Chain) int { return cmp.Compare(a.Priority, b.Priority) })
	for _, chain := range r.Inputs {
		if err := c.readChain(r, chain.place()); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// baseChain decodes a chain and the number of its hook. ok is false if it does not filter IPv4 or
// IPv6 packets.
func baseChain(f Family, a attributes) (c Chain, number uint32, ok bool) {
	hook := a.nested(unix.NFTA_CHAIN_HOOK)
	number, isBase := hook.number(unix.NFTA_HOOK_HOOKNUM)
	seen := f == Inet || f == IPv4 || f == IPv6
	if !seen || !isBase || a.text(unix.NFTA_CHAIN_TYPE) != "filter" {
		return Chain{}, 0, false
	}
	policy, ok := a.number(unix.NFTA_CHAIN_POLICY)
	return Chain{
		Family: f, Table: a.text(unix.NFTA_CHAIN_TABLE), Name: a.text(unix.NFTA_CHAIN_NAME),
		Priority: int32(hook.orZero(unix.NFTA_HOOK_PRIORITY)), Drop: ok && policy == nfDrop,
	}, number, true
}

// conn reads from nfnetlink.
type conn struct{ netstate.Netlink }

// dump lists objects of one kind: all of a family, or those selected by the attributes in at.
func (c conn) dump(ask, reply int, f Family, at []*nl.RtAttr, each func(f Family, a attributes) error) error {
	const subsystem = unix.NFNL_SUBSYS_NFTABLES << 8
	request := nl.NewNetlinkRequest(subsystem|ask, unix.NLM_F_DUMP)
	request.AddData(&nl.Nfgenmsg{NfgenFamily: uint8(f), Version: unix.NFNETLINK_V0})
	for _, a := range at {
		request.AddData(a)
	}
	return c.Dump(request, uint16(subsystem|reply), func(msg []byte) error {
		if len(msg) < nl.SizeofNfgenmsg {
			return errMalformed
		}
		a, err := parseAttributes(msg[nl.SizeofNfgenmsg:])
		if err != nil {
			return err
		}
		return each(Family(msg[0]), a)
	})
}

func name(kind int, text string) *nl.RtAttr { return nl.NewRtAttr(kind, nl.ZeroTerminated(text)) }

// dormant returns the disabled tables. The keys have an empty name.
func (c conn) dormant() (map[place]bool, error) {
	all := map[place]bool{}
	err := c.dump(unix.NFT_MSG_GETTABLE, unix.NFT_MSG_NEWTABLE, unix.NFPROTO_UNSPEC, nil, func(f Family, a attributes) error {
		if a.orZero(unix.NFTA_TABLE_FLAGS)&unix.NFT_TABLE_F_DORMANT != 0 {
			all[place{family: f, table: a.text(unix.NFTA_TABLE_NAME)}] = true
		}
		return nil
	})
	return all, err
}

// readChain reads a chain's rules, and the chains and sets that they use.
func (c conn) readChain(r *Ruleset, at place) error {
	if _, have := r.rules[at]; have {
		return nil
	}
	r.rules[at] = nil
	err := c.dump(unix.NFT_MSG_GETRULE, unix.NFT_MSG_NEWRULE, at.family,
		[]*nl.RtAttr{name(unix.NFTA_RULE_TABLE, at.table), name(unix.NFTA_RULE_CHAIN, at.name)}, func(_ Family, a attributes) error {
			if a.text(unix.NFTA_RULE_CHAIN) != at.name {
				return nil
			}
			decoded, err := parseRule(a[unix.NFTA_RULE_EXPRESSIONS])
			r.rules[at] = append(r.rules[at], decoded)
			if r.count++; r.count > maxRules {
				return errTooMany
			}
			return err
		})
	if err != nil {
		return fmt.Errorf("chain %s: %w", at.name, err)
	}
	for _, decoded := range r.rules[at] {
		for _, x := range decoded {
			if err := c.follow(r, at, x); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow reads the set or the chain that an expression uses.
func (c conn) follow(r *Ruleset, at place, x expression) error {
	var verdicts []verdict
	switch x.name {
	case "immediate":
		verdicts = []verdict{parseVerdict(x.attrs.nested(unix.NFTA_IMMEDIATE_DATA).nested(unix.NFTA_DATA_VERDICT))}
	case "lookup":
		of := place{at.family, at.table, x.attrs.text(unix.NFTA_LOOKUP_SET)}
		if err := c.readSet(r, of); err != nil {
			return fmt.Errorf("set %s: %w", of.name, err)
		}
		for _, entry := range r.sets[of].elements {
			if entry.data != nil {
				verdicts = append(verdicts, parseVerdict(entry.data.nested(unix.NFTA_DATA_VERDICT)))
			}
		}
	}
	for _, v := range verdicts {
		if v.chain == "" {
			continue
		}
		if err := c.readChain(r, place{at.family, at.table, v.chain}); err != nil {
			return err
		}
	}
	return nil
}

// parseRule decodes a list of expressions.
func parseRule(b []byte) (rule, error) {
	list, err := parseList(b)
	if err != nil {
		return nil, err
	}
	var r rule
	for _, a := range list {
		r = append(r, expression{a.text(unix.NFTA_EXPR_NAME), a.nested(unix.NFTA_EXPR_DATA)})
	}
	return r, nil
}

func (c conn) readSet(r *Ruleset, at place) error {
	if _, have := r.sets[at]; have {
		return nil
	}
	var s set
	err := c.dump(unix.NFT_MSG_GETSET, unix.NFT_MSG_NEWSET, at.family, []*nl.RtAttr{name(unix.NFTA_SET_TABLE, at.table)}, func(_ Family, a attributes) error {
		if a.text(unix.NFTA_SET_NAME) == at.name {
			s.flags, s.keyLen = a.orZero(unix.NFTA_SET_FLAGS), int(a.orZero(unix.NFTA_SET_KEY_LEN))
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = c.dump(unix.NFT_MSG_GETSETELEM, unix.NFT_MSG_NEWSETELEM, at.family,
		[]*nl.RtAttr{name(unix.NFTA_SET_ELEM_LIST_TABLE, at.table), name(unix.NFTA_SET_ELEM_LIST_SET, at.name)}, func(_ Family, a attributes) error {
			return s.add(a[unix.NFTA_SET_ELEM_LIST_ELEMENTS])
		})
	r.sets[at] = s
	return err
}

// add decodes a list of elements.
func (s *set) add(b []byte) error {
	list, err := parseList(b)
	if err != nil {
		return err
	}
	for _, a := range list {
		if len(s.elements) >= maxElements {
			s.partial = true
			return nil
		}
		flags := a.orZero(unix.NFTA_SET_ELEM_FLAGS)
		x := element{
			key: a.value(unix.NFTA_SET_ELEM_KEY), keyEnd: a.value(elementKeyEnd),
			end: flags&unix.NFT_SET_ELEM_INTERVAL_END != 0, any: flags&elementCatchall != 0,
		}
		if data := a[unix.NFTA_SET_ELEM_DATA]; data != nil {
			x.data = a.nested(unix.NFTA_SET_ELEM_DATA)
		}
		s.elements = append(s.elements, x)
	}
	return nil
}

const elementKeyEnd = 10 // NFTA_SET_ELEM_KEY_END, which package unix does not have
