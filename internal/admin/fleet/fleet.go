// Package fleet asks the node-dns of many nodes the same question, and summarizes the answers: the
// nodes that are well, and each problem once, with the nodes that have it.
//
// It reads a node's output as text from outside: the sizes and numbers of all parts are bounded. It
// has types of its own for that output, because the nodes run other versions, and because the types
// of package control need Linux. It runs node-dns in the nodes' pods with the credentials of
// kubectl's user, and so shares no code with package cluster, which watches the API with a node's.
package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Config is a question to the nodes.
type Config struct {
	Command  Command
	Targets  []Target
	Exec     func(ctx context.Context, pod string, argv []string) (Output, error)
	Parallel int           // number of nodes that are asked at a time
	Timeout  time.Duration // for one node
	// Keep is the number of bytes that are kept of all nodes' whole output: 0 for text, MaxKept for
	// JSON.
	Keep int64
}

// Command is the question: a command of node-dns.
type Command struct {
	Name string   // status, doctor, servers, query or explain
	Args []string // more arguments
}

// JSON returns the arguments of the program with JSON output.
func (c Command) JSON() []string {
	return append([]string{"node-dns", c.Name, "--output", "json"}, c.Args...)
}

// Text returns the arguments of the program with text output.
func (c Command) Text() []string { return append([]string{"node-dns", c.Name}, c.Args...) }

// Exit codes of node-dns that a result has.
const (
	ExitOK = iota
	ExitProblem
	ExitUsage
	ExitNotRunning
	ExitDenied
)

// State is the state of a node.
type State string

const (
	OK       State = "ok"
	Problem  State = "problem"  // the node answered, and has a problem
	NotAsked State = "notAsked" // no program can run in a pod of node-dns on the node, or the pod does not serve it
	Failed   State = "failed"   // the node gave no answer
)

// Result is the answer of one node.
type Result struct {
	Node     string    `json:"node"`
	Pod      string    `json:"pod,omitempty"`
	State    State     `json:"state"`
	ExitCode int       `json:"exitCode"` // of node-dns there, or as if it had run
	Findings []Finding `json:"findings"`
	Facts    []Fact    `json:"facts"`
	// Output is the node's whole answer. It is nil if the node gave none, or if all answers
	// together are too large.
	Output json.RawMessage `json:"output,omitempty"`

	addresses []string
}

// Finding is a problem of one node.
type Finding struct {
	Level Level     `json:"level"`
	What  string    `json:"what"`
	Fix   string    `json:"fix,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// Level is the severity of a Finding.
type Level string

const (
	Fail Level = "fail"
	Warn Level = "warn" // the node is ok nevertheless
)

// Fact is something to know about a node, which is not a problem.
type Fact struct {
	Name  string `json:"name"` // such as version
	Value string `json:"value"`
}

// MaxKept is enough for 5,000 nodes with 50 KB each.
const MaxKept = 256 << 20

// Run asks all targets, at most Parallel at a time, and returns their results in the same order.
// When the context ends, the remaining nodes have failed.
func Run(ctx context.Context, config Config) []Result {
	results := make([]Result, len(config.Targets))
	var kept atomic.Int64 // bytes of the results' output
	var group errgroup.Group
	group.SetLimit(config.Parallel)
	for i, target := range config.Targets {
		group.Go(func() error {
			r := ask(ctx, config, target)
			if kept.Add(int64(len(r.Output))) > config.Keep {
				r.Output = nil
			}
			results[i] = r
			return nil
		})
	}
	_ = group.Wait() // no function fails
	return results
}

func ask(ctx context.Context, config Config, target Target) Result {
	if target.Why != "" {
		return failed(target, NotAsked, ExitProblem, Finding{What: target.Why, Fix: target.Fix, Since: target.Since})
	}
	if ctx.Err() != nil {
		return failed(target, Failed, ExitProblem, Finding{What: "not asked: interrupted"})
	}
	ctx, cancel := context.WithTimeout(ctx, config.Timeout)
	defer cancel()
	output, err := config.Exec(ctx, target.Pod, config.Command.JSON())
	if err != nil {
		return failed(target, Failed, codeOf(err), findingOf(err, config.Timeout))
	}
	return judge(config.Command, target, output)
}

// failed returns the result of a node that gave no answer.
func failed(target Target, state State, code int, f Finding) Result {
	f.Level = Fail
	return Result{
		Node: target.Node, Pod: target.Pod, State: state, ExitCode: code, Findings: []Finding{f}, Facts: []Fact{}, addresses: target.Addresses,
	}
}

func codeOf(err error) int {
	if errors.Is(err, os.ErrPermission) {
		return ExitDenied
	}
	return ExitProblem
}

// findingOf describes why a node gave no answer.
func findingOf(err error, timeout time.Duration) Finding {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return Finding{
			What: fmt.Sprintf("no answer within %s", timeout),
			Fix:  "see whether its kubelet answers: kubectl describe node NODE; --timeout sets another limit",
		}
	case errors.Is(err, context.Canceled):
		return Finding{What: "no answer: interrupted"}
	case errors.Is(err, os.ErrPermission):
		return Finding{What: "no answer: " + clip(err.Error()), Fix: "ask an admin for the right to create pods/exec (docs/howto/fleet.md)"}
	case errors.Is(err, ErrTooLarge):
		return Finding{What: "unexpected output: " + err.Error(), Fix: "run it on this node alone: --node NODE"}
	}
	return Finding{What: "no answer: " + clip(err.Error()), Fix: "see whether its kubelet answers: kubectl describe node NODE"}
}
