package migrate

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// Rule is one of iptables(8).
type Rule struct {
	Program string   `json:"program"` // iptables or ip6tables
	Table   string   `json:"table"`
	Chain   string   `json:"chain"`
	Number  int      `json:"number"` // its place in the chain, from 1
	Args    []string `json:"args"`   // matches and target
}

// names reports whether the rule is for or from an address alone.
func (r Rule) names(addr netip.Addr) bool {
	return slices.ContainsFunc(r.Args, func(arg string) bool {
		prefix, err := netip.ParsePrefix(arg)
		return err == nil && prefix.IsSingleIP() && prefix.Addr() == addr
	})
}

// readRules reads the rules of the host. Missing programs are not an error: a container that wrote rules has its own.
func readRules(ctx context.Context) ([]Rule, error) {
	var all []Rule
	for _, program := range []string{"iptables", "ip6tables"} {
		if _, err := exec.LookPath(program + "-save"); err != nil {
			continue
		}
		for _, table := range []string{"raw", "filter"} {
			out, err := command(ctx, program+"-save", "-t", table)
			if err != nil {
				return all, err
			}
			all = append(all, parseRules(program, out)...)
		}
	}
	return all, nil
}

// parseRules reads what iptables-save(8) prints.
func parseRules(program, text string) []Rule {
	var all []Rule
	table, last := "", map[string]int{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "*"); ok {
			table = name
			clear(last)
			continue
		}
		words := splitRule(line)
		if len(words) < 2 || words[0] != "-A" {
			continue
		}
		chain := words[1]
		last[chain]++
		all = append(all, Rule{Program: program, Table: table, Chain: chain, Number: last[chain], Args: words[2:]})
	}
	return all
}

// splitRule splits at blanks, as iptables-restore(8) does: an argument with blanks is in double quotes, in which a backslash escapes.
func splitRule(line string) []string {
	var words []string
	var word strings.Builder
	quoted, escaped, begun := false, false, false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case quoted && r == '\\':
			escaped = true
		case r == '"':
			quoted, begun = !quoted, true
		case !quoted && (r == ' ' || r == '\t'):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words
}

// run has iptables do something about the rule. It waits for the lock, which others hold for a moment (xtables lock).
func (r Rule) run(ctx context.Context, verb string, args ...string) error {
	argv := slices.Concat([]string{r.Program, "--wait", "10", "--table", r.Table, verb, r.Chain}, args, r.Args)
	_, err := command(ctx, argv...)
	return err
}

// is reports whether the chain has the rule. iptables(8) exits with 1 when not.
func (r Rule) is(ctx context.Context) (bool, error) {
	err := r.run(ctx, "--check")
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return false, nil
	}
	return err == nil, err
}

// dropRules takes rules away.
func dropRules(ctx context.Context, rules []Rule) error {
	for _, r := range slices.Backward(rules) { // the last of a chain first: the others keep their places
		is, err := r.is(ctx)
		if err == nil && is {
			err = r.run(ctx, "--delete")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// restoreRules puts them where they were.
func restoreRules(ctx context.Context, rules []Rule) error {
	var errs []error
	for _, r := range rules {
		is, err := r.is(ctx)
		if err == nil && !is {
			err = r.run(ctx, "--insert", strconv.Itoa(r.Number))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// dropStep takes an address from a link, with the rules that were made for it.
func dropStep(link string, addr netip.Addr, rules []Rule, why string) Step {
	what := fmt.Sprintf("take %v from the link %s", addr, link)
	if len(rules) > 0 {
		what += fmt.Sprintf(", with its %d rules of iptables", len(rules))
	}
	return Step{Kind: DropAddress, Link: link, Addr: addr, Rules: rules, What: what + ": " + why}
}

// dropAddress does it. The rules go first: as long as they stand, connection tracking leaves out what a Service of this address needs.
func dropAddress(ctx context.Context, s Step) error {
	if err := dropRules(ctx, s.Rules); err != nil {
		return err
	}
	has, err := hasAddress(ctx, s.Link, s.Addr)
	if err != nil || !has {
		return err
	}
	_, err = command(ctx, "ip", "address", "del", single(s.Addr), "dev", s.Link)
	return err
}

// restoreAddress is the way back. A link that is gone, as after a boot, had nothing on it.
func restoreAddress(ctx context.Context, s Step) error {
	if _, err := os.Stat("/sys/class/net/" + s.Link); err != nil {
		return nil
	}
	has, err := hasAddress(ctx, s.Link, s.Addr)
	if err == nil && !has {
		_, err = command(ctx, "ip", "address", "add", single(s.Addr), "dev", s.Link)
	}
	return errors.Join(err, restoreRules(ctx, s.Rules))
}

// single is the prefix of an address alone, as NodeLocal DNSCache has its own.
func single(addr netip.Addr) string { return netip.PrefixFrom(addr, addr.BitLen()).String() }

func hasAddress(ctx context.Context, link string, addr netip.Addr) (bool, error) {
	out, err := command(ctx, "ip", "-oneline", "address", "show", "dev", link, "to", single(addr))
	return out != "", err
}
