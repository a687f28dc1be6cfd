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

// Rule is one iptables(8) rule.
type Rule struct {
	Program string   `json:"program"` // iptables or ip6tables
	Table   string   `json:"table"`
	Chain   string   `json:"chain"`
	Number  int      `json:"number"` // position in the chain, starting at 1
	Args    []string `json:"args"`   // matches and target
}

// names reports whether the rule matches exactly one address, addr.
func (r Rule) names(addr netip.Addr) bool {
	return slices.ContainsFunc(r.Args, func(arg string) bool {
		prefix, err := netip.ParsePrefix(arg)
		return err == nil && prefix.IsSingleIP() && prefix.Addr() == addr
	})
}

// readRules reads the host's rules. Missing programs are not an error, because a container that
// wrote rules has its own.
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

// parseRules parses the output of iptables-save(8).
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

// splitRule splits a line at blanks like iptables-restore(8). An argument with blanks is in double
// quotes, where a backslash escapes a character.
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

// run runs iptables on the rule. It waits for the xtables lock, which other programs hold briefly.
func (r Rule) run(ctx context.Context, verb string, args ...string) error {
	argv := slices.Concat([]string{r.Program, "--wait", "10", "--table", r.Table, verb, r.Chain}, args, r.Args)
	_, err := command(ctx, argv...)
	return err
}

// is reports whether the chain contains the rule. iptables(8) exits with 1 if not.
func (r Rule) is(ctx context.Context) (bool, error) {
	err := r.run(ctx, "--check")
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return false, nil
	}
	return err == nil, err
}

// dropRules removes rules.
func dropRules(ctx context.Context, rules []Rule) error {
	for _, r := range slices.Backward(rules) { // from the last one of a chain, so that the others keep their positions
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

// restoreRules inserts rules at their old positions.
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

// dropStep removes an address from a link together with the rules for it.
func dropStep(link string, addr netip.Addr, rules []Rule, why string) Step {
	what := fmt.Sprintf("remove %v from the link %s", addr, link)
	if len(rules) > 0 {
		what += fmt.Sprintf(", with its %d iptables rules", len(rules))
	}
	return Step{Kind: DropAddress, Link: link, Addr: addr, Rules: rules, What: what + ": " + why}
}

// dropAddress removes the rules first, because they exempt packets from connection tracking, which
// a Service with this address needs.
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

// restoreAddress undoes dropAddress. If the link is gone, as after a boot, there is nothing to
// restore.
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

// single returns the prefix of a single address, as NodeLocal DNSCache configures it.
func single(addr netip.Addr) string { return netip.PrefixFrom(addr, addr.BitLen()).String() }

func hasAddress(ctx context.Context, link string, addr netip.Addr) (bool, error) {
	out, err := command(ctx, "ip", "-oneline", "address", "show", "dev", link, "to", single(addr))
	return out != "", err
}
