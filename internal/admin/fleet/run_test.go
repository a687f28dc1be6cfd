package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestParallel: Run asks Parallel nodes at a time if there are that many, and never more.
func TestParallel(t *testing.T) {
	for _, parallel := range []int{1, 7, 50} {
		synctest.Test(t, func(t *testing.T) {
			var active, most, total atomic.Int64
			start := time.Now()
			results := Run(t.Context(), Config{
				Command: Command{Name: "status"}, Targets: targets(200), Parallel: parallel, Timeout: time.Minute,
				Exec: func(context.Context, string, []string) (Output, error) {
					total.Add(1)
					most.Store(max(most.Load(), active.Add(1)))
					time.Sleep(time.Second)
					active.Add(-1)
					return Output{Stdout: []byte(wellStatus)}, nil
				},
			})
			rounds := (200 + parallel - 1) / parallel
			if most.Load() != int64(parallel) || total.Load() != 200 || time.Since(start) != time.Duration(rounds)*time.Second {
				t.Errorf("%d at a time, %d in total, in %s; want %d, 200, %d s", most.Load(), total.Load(), time.Since(start), parallel, rounds)
			}
			if r := NewReport("status", results, now); r.OK != 200 {
				t.Errorf("%d nodes are ok", r.OK)
			}
		})
	}
}

func targets(n int) (all []Target) {
	for i := range n {
		all = append(all, Target{Node: fmt.Sprintf("n%03d", i), Pod: fmt.Sprintf("p%03d", i)})
	}
	return all
}

// TestHang: a node that hangs costs the timeout, and the others answer meanwhile.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		results := Run(t.Context(), Config{
			Command: Command{Name: "status"}, Targets: targets(10), Parallel: 2, Timeout: 20 * time.Second,
			Exec: func(ctx context.Context, pod string, _ []string) (Output, error) {
				if pod == "p000" {
					<-ctx.Done()
					return Output{}, ctx.Err()
				}
				time.Sleep(time.Second)
				return Output{Stdout: []byte(wellStatus)}, nil
			},
		})
		if took := time.Since(start); took != 20*time.Second {
			t.Errorf("took %s, want 20s", took)
		}
		if r := NewReport("status", results, now); r.OK != 9 || results[0].State != Failed || results[0].Findings[0].What != "no answer within 20s" {
			t.Errorf("got %d nodes ok, and %+v", r.OK, results[0])
		}
	})
}

// TestInterrupt: after an interrupt no further node is asked.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(1500*time.Millisecond, cancel)
		var asked atomic.Int64
		results := Run(ctx, Config{
			Command: Command{Name: "status"}, Targets: targets(10), Parallel: 2, Timeout: time.Minute,
			Exec: func(ctx context.Context, _ string, _ []string) (Output, error) {
				asked.Add(1)
				select {
				case <-ctx.Done():
					return Output{}, ctx.Err()
				case <-time.After(time.Second):
					return Output{Stdout: []byte(wellStatus)}, nil
				}
			},
		})
		if r := NewReport("status", results, now); asked.Load() != 4 || r.OK != 2 || r.ExitCode != ExitProblem {
			t.Errorf("%d nodes were asked, %d are ok, exit code %d", asked.Load(), r.OK, r.ExitCode)
		}
	})
}

// TestKeep: the nodes' output is kept up to a limit.
func TestKeep(t *testing.T) {
	size := int64(len(wellStatus))
	for keep, want := range map[int64]int64{0: 0, 1: 0, size: size, 5*size - 1: 4 * size, MaxKept: 10 * size} {
		results := Run(t.Context(), Config{
			Command: Command{Name: "status"}, Targets: targets(10), Parallel: 3, Timeout: time.Minute, Keep: keep,
			Exec: func(context.Context, string, []string) (Output, error) {
				return Output{Stdout: []byte(wellStatus)}, nil
			},
		})
		kept := int64(0)
		for _, r := range results {
			kept += int64(len(r.Output))
		}
		if kept != want {
			t.Errorf("keep %d: got %d bytes, want %d", keep, kept, want)
		}
	}
}

func TestTargets(t *testing.T) {
	since := now.Add(-time.Hour)
	tests := []struct {
		name string
		node Node
		pods []Pod
		want Target
	}{
		{"a pod runs", Node{Name: "a", OS: "linux"}, []Pod{{Name: "p", Node: "a"}}, Target{Node: "a", Pod: "p"}},
		{"the pod of another node", Node{Name: "a"}, []Pod{{Name: "p", Node: "b"}}, Target{Node: "a", Why: "not asked: no pod of node-dns in ns"}},
		{"no pod", Node{Name: "a"}, nil, Target{Node: "a", Why: "not asked: no pod of node-dns in ns"}},
		{"an update", Node{Name: "a"}, []Pod{{Name: "old", Node: "a", IsLeaving: true}, {Name: "new", Node: "a"}}, Target{Node: "a", Pod: "new"}},
		{"an update begins", Node{Name: "a"}, []Pod{{Name: "old", Node: "a", IsLeaving: true}, {Name: "new", Node: "a", Why: "Pending"}}, Target{Node: "a", Pod: "old"}},
		{"a pod that crashes", Node{Name: "a"}, []Pod{{Name: "gone", Node: "a", Why: "Succeeded", IsLeaving: true}, {Name: "p", Node: "a", Why: "CrashLoopBackOff"}}, Target{Node: "a", Pod: "p", Why: "not asked: the pod of node-dns is not running: CrashLoopBackOff"}},
		{"the kubelet is lost", Node{Name: "a", LostSince: since}, []Pod{{Name: "p", Node: "a"}}, Target{Node: "a", Why: "not asked: the kubelet does not report to the API server", Since: since}},
		{"Windows", Node{Name: "a", OS: "windows"}, nil, Target{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			all := Targets([]Node{test.node}, test.pods, "ns")
			if test.want.Node == "" {
				if len(all) > 0 {
					t.Errorf("got %+v", all)
				}
				return
			}
			if len(all) != 1 {
				t.Fatalf("got %d targets", len(all))
			}
			got := all[0]
			if (got.Fix == "") != (test.want.Why == "") {
				t.Errorf("fix %q", got.Fix)
			}
			if got.Node != test.want.Node || got.Pod != test.want.Pod || got.Why != test.want.Why || !got.Since.Equal(test.want.Since) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// FuzzJudge: any output of a node gives a result of bounded size, and a report that is valid JSON.
func FuzzJudge(f *testing.F) {
	for _, test := range reports {
		for _, s := range test.said {
			if len(s.output) < 2000 {
				f.Add(test.command.Name, []byte(s.output), s.code)
			}
		}
	}
	f.Fuzz(func(t *testing.T, command string, output []byte, code int) {
		if kinds[command] == "" {
			return
		}
		r := judge(Command{Name: command, Args: []string{"--", "db"}}, Target{Node: "a", Pod: "p"}, Output{Stdout: output, Code: code})
		size := 0
		for _, f := range r.Findings {
			size += len(f.What) + len(f.Fix)
		}
		for _, f := range r.Facts {
			size += len(f.Value)
		}
		if most := (2*maxFindings + maxFacts) * 2 * maxText; size > most {
			t.Errorf("got %d bytes, want at most %d", size, most)
		}
		isWell := r.State == OK || r.State == NotAsked // of a node that another node-dns serves
		if isWell != (r.ExitCode == ExitOK) || r.ExitCode < ExitOK || r.ExitCode > ExitDenied {
			t.Errorf("state %s with exit code %d", r.State, r.ExitCode)
		}
		var out strings.Builder
		if err := NewReport(command, []Result{r}, now).WriteJSON(&out); err != nil || !json.Valid([]byte(out.String())) {
			t.Errorf("got invalid JSON: %v", err)
		}
		if err := NewReport(command, []Result{r}, now).WriteText(&out, time.UTC); err != nil {
			t.Error(err)
		}
	})
}
