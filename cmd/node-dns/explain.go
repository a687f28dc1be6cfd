package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/admin/control"
)

func newExplainCommand() *cobra.Command {
	var namespace, pod string
	var slow bool
	cmd := &cobra.Command{
		Use:   "explain NAME",
		Short: "Show every query that a lookup sends, and which server answers",
		Long: `Show every query that a lookup sends, and which server answers: the names from
the search list, in order, and the number of queries.

The lookup is that of a process on this node. With --namespace it is that of a
pod there, with the resolv.conf that the kubelet writes. With --pod it is that
of one pod, whose dnsPolicy and dnsConfig come from the Kubernetes API. The
output also shows the queries of dig, the differences between musl and glibc,
and the resolv.conf with its problems.

With --slow it shows instead when the name was slow in the last ten minutes, for
which clients, and where the time went. A name without a final dot also stands
for the names that search lists make of it.

Exit code 0: the name is found, and there is no problem; 1: it is not found, or
a problem is shown; 3: node-dns is not running; 4: permission denied (--pod).`,
		Example: `  node-dns explain google.com --namespace shop
  node-dns explain db --pod shop/web-0`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := toASCII(args[0])
			if err != nil {
				return usageError{err}
			}
			if slow {
				if namespace != "" || pod != "" {
					return usageError{errors.New("--slow covers all clients and cannot be combined with --namespace or --pod")}
				}
				return showFetched(cmd, func(ctx context.Context, path string) (control.SlowNames, error) {
					return control.FetchSlowNames(ctx, path, name)
				})
			}
			question, err := whose(namespace, pod)
			if err != nil {
				return usageError{err}
			}
			root, err := rootOf(cmd)
			if err != nil {
				return err
			}
			if question.Namespace != "" {
				question.Kubelet = kubeletTold(root)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), lookupTimeout)
			defer cancel()
			explanation, err := control.FetchExplanation(ctx, control.SocketPath(root), name, question)
			if err != nil {
				return err
			}
			return show(cmd, explanation, len(explanation.Problems) > 0)
		},
	}
	addOutputFlag(cmd)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "a pod of this `namespace`")
	cmd.Flags().BoolVar(&slow, "slow", false, "show when it was slow in the last ten minutes, and where the time went")
	cmd.Flags().StringVar(&pod, "pod", "", "this `pod`: NAMESPACE/NAME, or NAME with --namespace")
	return cmd
}

// whose returns the question for the selected resolv.conf.
func whose(namespace, pod string) (control.SearchQuestion, error) {
	within, name, both := strings.Cut(pod, "/")
	switch {
	case pod == "":
		return control.SearchQuestion{Namespace: namespace}, nil
	case !both && namespace != "":
		return control.SearchQuestion{Namespace: namespace, Pod: pod}, nil
	case !both || within == "" || name == "" || namespace != "" && namespace != within:
		return control.SearchQuestion{}, fmt.Errorf("--pod %s: expected NAMESPACE/NAME", pod)
	}
	return control.SearchQuestion{Namespace: within, Pod: name}, nil
}
