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
	var output, namespace, pod string
	var slow bool
	cmd := &cobra.Command{
		Use:   "explain NAME",
		Short: "Show which names a lookup asks for, who answers each, and how many queries that is",
		Long: `Show which names a lookup asks for, who answers each, and how many queries that is.

It is of a process on this node; with --namespace of a pod there, as the kubelet makes its resolv.conf; with --pod of one pod,
whose own dnsPolicy and dnsConfig are asked of the Kubernetes API. Then: what dig would ask, where musl differs from glibc, the
resolv.conf, and what is wrong with it.

With --slow it is shown instead when the name was slow in the last ten minutes, for whom, and where the time went. A name
without a dot at its end stands for those that search lists make of it too.

Exit code 0: the name is found, and all is well; 1: it is not, or something is wrong, which is shown; 3: node-dns is not running.`,
		Example: "  node-dns explain google.com --namespace shop",
		Args:    oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if slow {
				if namespace != "" || pod != "" {
					return usageError{errors.New("--slow is about all clients: it goes with neither --namespace nor --pod")}
				}
				return showFetched(cmd, output, func(ctx context.Context, path string) (control.SlowNames, error) {
					return control.FetchSlowNames(ctx, path, args[0])
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
			explanation, err := control.FetchExplanation(ctx, control.SocketPath(root), args[0], question)
			if err != nil {
				return err
			}
			return show(cmd, explanation, output, explanation.Problems)
		},
	}
	addOutputFlag(cmd, &output)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "a pod of this namespace")
	cmd.Flags().BoolVar(&slow, "slow", false, "show when it was slow in the last ten minutes, and where the time went")
	cmd.Flags().StringVar(&pod, "pod", "", "this pod: NAMESPACE/NAME, or NAME with --namespace")
	return cmd
}

// whose is whose resolv.conf is meant.
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
