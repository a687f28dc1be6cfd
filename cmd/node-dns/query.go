package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// lookupTimeout bounds a whole search list, of which each name may take the 5 s of a client's query.
const lookupTimeout = 40 * time.Second

func newQueryCommand() *cobra.Command {
	var output, namespace, reverse string
	var short bool
	cmd := &cobra.Command{
		Use:   "query NAME [TYPE] [CLASS]",
		Short: "Look a name up by what answers clients, and say who answered",
		Long: `Look a name up by what answers clients, and say who answered.

The words may stand in any order, as dig takes them; without TYPE it is A and AAAA, as programs ask. The search list is this
node's (/etc/resolv.conf), or with --namespace that of its pods. A dot at the end of NAME means no search list.

Exit code 0: there is an answer; 1: there is none (NXDOMAIN, NODATA, SERVFAIL); 3: node-dns is not running.`,
		Example: "  node-dns query web.shop -n shop\n  node-dns query --short kubernetes.default.svc.cluster.local\n  node-dns query -x 172.30.0.1",
		Args:    usageArgs(cobra.ArbitraryArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			question, err := readQuestion(args, reverse)
			if err != nil {
				return usageError{err}
			}
			question.Search.Namespace = namespace
			lookup, err := fetchLookup(cmd, question)
			if err != nil {
				return err
			}
			if short && output == "text" {
				err = lookup.WriteShort(cmd.OutOrStdout())
			} else {
				err = show(cmd, lookup, output, nil)
			}
			if err == nil && !lookup.Found {
				err = errShown
			}
			return err
		},
	}
	addOutputFlag(cmd, &output)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "the search list of this namespace's pods")
	cmd.Flags().StringVarP(&reverse, "reverse", "x", "", "the name of this address")
	cmd.Flags().BoolVar(&short, "short", false, "the data alone")
	return cmd
}

func fetchLookup(cmd *cobra.Command, question control.LookupQuestion) (control.Lookup, error) {
	root, err := rootOf(cmd)
	if err != nil {
		return control.Lookup{}, err
	}
	if question.Search.Namespace != "" {
		question.Search.Kubelet = kubeletTold(root)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), lookupTimeout)
	defer cancel()
	return control.FetchLookup(ctx, control.SocketPath(root), question)
}

// readQuestion reads dig's words: a type or a class is one wherever it stands, but the only word is the name.
func readQuestion(words []string, reverse string) (q control.LookupQuestion, err error) {
	if reverse != "" {
		addr, err := netip.ParseAddr(reverse)
		if err != nil {
			return q, fmt.Errorf("-x %q: expected an address", reverse)
		}
		q.Name, q.Types = dnsname.Reverse(addr).String(), []string{"PTR"}
	}
	for _, word := range words {
		upper := strings.ToUpper(word)
		switch {
		case len(q.Types) == 0 && isType(upper) && (len(words) > 1 || q.Name != ""):
			q.Types = []string{upper}
		case q.Class == "" && (upper == "IN" || upper == "CH") && len(words) > 1:
			q.Class = upper
		case q.Name == "":
			q.Name = word
		case reverse != "" && isType(upper):
			q.Types = []string{upper}
		default:
			return q, fmt.Errorf("%q: there is a name already, %q, and it is no type", word, q.Name)
		}
	}
	if q.Name == "" {
		return q, fmt.Errorf("expected a name")
	}
	return q, nil
}

// isType reports whether a word in upper case is a type of records, by name or as TYPE123 (RFC 3597 section 5).
func isType(word string) bool {
	n, ok := dns.StringToType[word]
	rest, isNumber := strings.CutPrefix(word, "TYPE")
	return ok && n != dns.TypeNone && n != dns.TypeReserved || isNumber && rest != "" && strings.Trim(rest, "0123456789") == ""
}
