package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/admin/control"
)

// Timeouts: for an entire search list, of which each name may take the 5 s of a client's query, and
// for all names of a command.
const (
	lookupTimeout = 40 * time.Second
	queryTimeout  = 2 * time.Minute
)

const queryHelp = `Look up names as clients do, and show which server answered.

The words may stand in any order. Without TYPE, node-dns looks up A and AAAA,
as programs do. A bare address is looked up in reverse. The search list is this
node's (/etc/resolv.conf), or with --namespace that of its pods; a dot at the
end of NAME means no search list. If nothing is found, every name that was tried
is shown with the server that denied it.

With @SERVER, an address or a host name, this command queries that nameserver
directly, so that you can compare the answers. Then there is no
search list without --namespace.

--as shows the answer that this client gets, with its access rules (allowFrom),
its limits, and autopath. A
pod, given by its name or address, has the search list of its dnsPolicy and
dnsConfig. --as and --fresh are for root and the group node-dns-admin.

Exit code 0: every name has an answer; 1: a name has none (NXDOMAIN, NODATA,
SERVFAIL, no response); 3: node-dns is not running; 4: permission denied (--as,
--fresh).`

func newQueryCommand() *cobra.Command {
	var namespace string
	var short bool
	var flags queryFlags
	cmd := &cobra.Command{
		Use:   "query NAME... [TYPE] [CLASS] [@SERVER]",
		Short: "Look up names as clients do, and show which server answered",
		Long:  queryHelp,
		Example: `  node-dns query web.shop -n shop
  node-dns query --short kubernetes.default.svc.cluster.local
  node-dns query 172.30.0.1
  node-dns query www.example.com AAAA @192.0.2.53 --tcp
  node-dns query www.example.com. --trace
  node-dns query api.example.com --as shop/web-0 --fresh
  node-dns query www.example.com @9.9.9.9#dns.quad9.net --tls --dnssec`,
		Args: usageArgs(cobra.ArbitraryArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			flags.lookup = func(host string) (netip.Addr, error) { return addressOf(cmd, host) }
			questions, err := readQuestions(args, flags)
			switch {
			case errors.As(err, new(hostError)):
				return err
			case err != nil:
				return usageError{err}
			}
			within, _, isPod := strings.Cut(flags.how.As, "/")
			if isPod && namespace != "" && namespace != within {
				return usageError{fmt.Errorf("--namespace %s --as %s: expected the namespace of the pod", namespace, flags.how.As)}
			}
			for i := range questions {
				questions[i].Search.Namespace = namespace
				// A fully qualified name has no search list, for which the Kubernetes API would be
				// queried.
				isWhole := strings.HasSuffix(questions[i].Name, ".")
				if (isPod || namespace == "") && !isWhole {
					questions[i].Search = control.SearchQuestion{As: flags.how.As}
				}
			}
			return runQuery(cmd, questions, short)
		},
	}
	addOutputFlag(cmd)
	set := cmd.Flags()
	set.StringVarP(&namespace, "namespace", "n", "", "the search list of this namespace's pods")
	set.StringVarP(&flags.reverse, "reverse", "x", "", "the name of this address")
	set.StringVarP(&flags.qtype, "type", "t", "", "the record type, such as AAAA; every other word is then a name")
	set.BoolVar(&flags.tcp, "tcp", false, "query @SERVER over TCP")
	set.BoolVar(&flags.tls, "tls", false, "query @SERVER over TLS, on port 853; ADDRESS#NAME has the name of its certificate")
	set.BoolVar(&flags.how.DNSSEC, "dnssec", false, "also request signatures (the DO bit)")
	set.BoolVar(&flags.how.CD, "cd", false, "also accept answers that fail validation (the CD bit)")
	set.BoolVar(&flags.how.Fresh, "fresh", false, "query the nameservers instead of the cache, and cache nothing")
	set.StringVar(&flags.how.As, "as", "", "show the answer that this client gets: its address, or NAMESPACE/NAME of a pod on this node")
	set.BoolVar(&flags.how.Trace, "trace", false, "show each step to the answer, and where the time went")
	set.BoolVar(&short, "short", false, "print only the data")
	return cmd
}

// addressOf returns an address of a nameserver with that host name, through node-dns.
func addressOf(cmd *cobra.Command, host string) (netip.Addr, error) {
	lookup, err := fetchLookup(cmd.Context(), cmd, control.LookupQuestion{Name: host})
	addrs := lookup.Addrs()
	if err == nil && len(addrs) == 0 {
		err = errors.New("node-dns finds no address for it")
	}
	if err != nil {
		return netip.Addr{}, hostError{err}
	}
	return addrs[0], nil
}

// hostError means that @SERVER is written correctly, but its host name has no address.
type hostError struct{ error }

func (e hostError) Unwrap() error { return e.error }

// runQuery looks the names up one after the other and prints each result as it arrives.
func runQuery(cmd *cobra.Command, questions []control.LookupQuestion, short bool) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), queryTimeout)
	defer cancel()
	output := outputOf(cmd)
	list := listPrinter{w: cmd.OutOrStdout(), output: output, kind: "LookupList", key: "lookups"}
	found := true
	for _, question := range questions {
		lookup, err := fetchLookup(ctx, cmd, question)
		switch {
		case err != nil:
		case short && output == "text":
			err = lookup.WriteShort(cmd.OutOrStdout())
		case len(questions) == 1:
			err = show(cmd, lookup, false)
		default:
			err = list.add(lookup)
		}
		if err != nil {
			return list.fail(err)
		}
		found = found && lookup.Found
	}
	if len(questions) > 1 && output != "text" {
		if err := list.end(); err != nil {
			return err
		}
	}
	return shownIf(!found)
}

func fetchLookup(ctx context.Context, cmd *cobra.Command, question control.LookupQuestion) (control.Lookup, error) {
	root, err := rootOf(cmd)
	if err != nil {
		return control.Lookup{}, err
	}
	if question.Search.Namespace != "" || question.Search.As != "" {
		question.Search.Kubelet = kubeletTold(root)
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	return control.FetchLookup(ctx, control.SocketPath(root), question)
}
