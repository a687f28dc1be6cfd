package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/admin/fleet"
)

// displayName is how kubectl runs the program.
const displayName = "kubectl node-dns"

// options are the flags of all commands.
type options struct {
	kube      *fleet.Flags
	namespace string
	node      string
	all       bool
	selector  string
	parallel  int
	timeout   time.Duration
	output    string
}

func newRootCommand() *cobra.Command {
	var o options
	root := &cobra.Command{
		Use:   "kubectl-node_dns",
		Short: "Ask the node-dns of all nodes, and summarize the answers",
		Long: `Ask the node-dns of all nodes, and summarize the answers.

It runs the command of the same name in node-dns's pods, on all nodes at once.
Each problem is shown once, with the nodes that have it. With --node, the output
is that of node-dns on this node.

Exit codes: 0 all nodes are ok, 1 a node has a problem or gave no answer, 2
invalid command line, 3 node-dns does not run in a pod, 4 permission denied.`,
		Example: `  kubectl node-dns status
  kubectl node-dns doctor -l pool=workers
  kubectl node-dns query www.example.com
  kubectl node-dns explain shop/web-0 db`,
		Version:       version,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: displayName},
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	if revision != "" {
		root.Version += " (" + revision + ")"
	}
	set := root.PersistentFlags()
	o.kube = fleet.AddFlags(set)
	set.StringVarP(&o.namespace, "namespace", "n", "kube-system", "`namespace` of node-dns's DaemonSet")
	set.StringVar(&o.node, "node", "", "ask only this `node`, and show its own output")
	set.BoolVar(&o.all, "all", false, "ask all nodes, which is the default")
	set.StringVarP(&o.selector, "selector", "l", "", "ask the nodes with these `labels`, such as pool=workers")
	set.IntVar(&o.parallel, "parallel", 50, "maximum `number` of nodes that are asked at a time")
	set.DurationVar(&o.timeout, "timeout", time.Minute, "maximum `time` for one node")
	set.StringVarP(&o.output, "output", "o", "text", "print in this `format`: text or json")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		o.command("status", "Show whether node-dns works, and its problems"),
		o.command("doctor", "Check the nodes' DNS and suggest fixes"),
		o.command("servers", "Show the state of the nodes' upstream nameservers"),
		newQueryCommand(&o), newExplainCommand(&o),
	)
	return root
}

// command returns a command of node-dns that takes no arguments.
func (o *options) command(name, short string) *cobra.Command {
	return &cobra.Command{
		Use:   name,
		Short: short,
		Args:  expect(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd, fleet.Command{Name: name}, "", "")
		},
	}
}

func newQueryCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:     "query NAME [TYPE]",
		Short:   "Look up a name on the nodes, and compare the answers",
		Example: "  kubectl node-dns query www.example.com AAAA",
		Args:    expect(1, 2, "NAME, and perhaps TYPE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			command := fleet.Command{Name: "query"}
			if len(args) == 2 {
				command.Args = []string{"--type", args[1]}
			}
			command.Args = append(command.Args, "--", args[0])
			return o.run(cmd, command, "", "")
		},
	}
}

func newExplainCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "explain [POD] NAME",
		Short: "Show every query that a lookup sends",
		Long: `Show every query that a lookup sends. With POD, it is the lookup of this pod,
and the output is that of node-dns on its node. POD is NAMESPACE/NAME, or the
name of a pod in the namespace of the kubeconfig's context.`,
		Example: `  kubectl node-dns explain google.com
  kubectl node-dns explain shop/web-0 db`,
		Args: expect(1, 2, "NAME, or POD and NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			command := fleet.Command{Name: "explain", Args: []string{"--", args[len(args)-1]}}
			if len(args) == 1 {
				return o.run(cmd, command, "", "")
			}
			if o.node != "" || o.all || o.selector != "" {
				return usageError{errors.New("explain POD NAME asks the node of the pod; expected no --node, --all or --selector")}
			}
			namespace, pod, ok := strings.Cut(args[0], "/")
			if !ok {
				var err error
				if namespace, err = o.kube.Namespace(); err != nil {
					return err
				}
				pod = args[0]
			}
			if namespace == "" || pod == "" || strings.Contains(pod, "/") {
				return usageError{fmt.Errorf("%q: expected a pod as NAMESPACE/NAME", args[0])}
			}
			command.Args = append([]string{"--pod", namespace + "/" + pod}, command.Args...)
			return o.run(cmd, command, namespace, pod)
		},
	}
}

// expect is the check for a number of arguments. what describes them.
func expect(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most || slices.Contains(args, "") {
			return usageError{fmt.Errorf("%s: expected %s", strings.TrimRight(cmd.Name()+" "+strings.Join(args, " "), " "), what)}
		}
		return nil
	}
}

func (o *options) check() error {
	given := 0
	for _, isGiven := range []bool{o.node != "", o.all, o.selector != ""} {
		if isGiven {
			given++
		}
	}
	switch {
	case given > 1:
		return errors.New("expected only one of --node, --all and --selector")
	case o.output != "text" && o.output != "json":
		return fmt.Errorf("-o %s: expected text or json", o.output)
	case o.parallel < 1:
		return fmt.Errorf("--parallel %d: expected 1 or more", o.parallel)
	case o.timeout <= 0:
		return fmt.Errorf("--timeout %s: expected a time above 0", o.timeout)
	}
	return nil
}

// run asks the nodes. With a pod, it asks the node of this pod.
func (o *options) run(cmd *cobra.Command, command fleet.Command, podNamespace, pod string) error {
	if err := o.check(); err != nil {
		return usageError{err}
	}
	ctx := cmd.Context()
	client, err := o.kube.Client(o.namespace, fleet.Container)
	if err != nil {
		return err
	}
	node := o.node
	if pod != "" {
		if node, err = client.NodeOf(ctx, podNamespace, pod); err != nil {
			return err
		}
	}
	targets, err := o.targets(ctx, client, node)
	if err != nil {
		return err
	}
	if node != "" && o.output == "text" && targets[0].Why == "" {
		return o.show(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr(), client, targets[0], command)
	}
	keep := int64(0)
	if o.output == "json" {
		keep = fleet.MaxKept
	}
	results := fleet.Run(ctx, fleet.Config{
		Command: command, Targets: targets, Exec: client.Exec, Parallel: o.parallel, Timeout: o.timeout, Keep: keep,
	})
	report := fleet.NewReport(command.Name, results, time.Now())
	if o.output == "json" {
		err = report.WriteJSON(cmd.OutOrStdout())
	} else {
		err = report.WriteText(cmd.OutOrStdout(), time.Local)
	}
	if err == nil && report.ExitCode != fleet.ExitOK {
		err = shownError{report.ExitCode}
	}
	return err
}

// targets returns the nodes to ask: one or more.
func (o *options) targets(ctx context.Context, client *fleet.Client, node string) ([]fleet.Target, error) {
	nodes, err := client.Nodes(ctx, o.selector, node)
	if err != nil {
		return nil, err
	}
	pods, err := client.Pods(ctx, fleet.PodSelector, node)
	if err != nil {
		return nil, err
	}
	targets := fleet.Targets(nodes, pods, o.namespace)
	switch {
	case len(targets) == 0 && node != "":
		return nil, fmt.Errorf("no node %q with Linux", node)
	case len(targets) == 0 && o.selector != "":
		return nil, fmt.Errorf("no node with Linux matches -l %s", o.selector)
	case len(targets) == 0:
		return nil, errors.New("the cluster has no node with Linux")
	case len(pods) == 0 && node == "":
		return nil, fmt.Errorf("%w in %s: --namespace sets another namespace; nodes with the RPM have none (docs/howto/fleet.md)", errNoPods, o.namespace)
	}
	return targets, nil
}

// show prints what node-dns on one node prints, and returns its exit code.
func (o *options) show(ctx context.Context, stdout, stderr io.Writer, client *fleet.Client, target fleet.Target, command fleet.Command) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	output, err := client.Exec(ctx, target.Pod, command.Text())
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("node %s: no answer within %s", target.Node, o.timeout)
	case err != nil:
		return fmt.Errorf("node %s: %w", target.Node, err)
	}
	if _, err := stdout.Write(output.Stdout); err != nil {
		return err
	}
	if _, err := stderr.Write(output.Stderr); err != nil {
		return err
	}
	switch {
	case output.Code == fleet.ExitOK:
		return nil
	case output.Code < 0 || output.Code > fleet.ExitDenied:
		return shownError{fleet.ExitProblem}
	}
	return shownError{output.Code}
}
