package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/golden"
	"github.com/node-dns/node-dns/internal/test/kubetest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestScripts runs the scripts in testdata/script, each with a tree of its own, $ROOT. In addition
// to testscript's commands there are
//
//	site NAME FILE         a nameserver with the records of a file; $NAME is its address
//	fails NAME             makes that nameserver silent from now on
//	serve [ARGS...]        `node-dns --root $ROOT serve ARGS` on a free port, $AT; waits until ready
//	cluster FILE           a Kubernetes API with the objects of a file; sets $KUBECONFIG and
//	                       kubeconfig in node-dns.yaml
//	ask NAME TYPE [RCODE]  a query to that daemon, which must return this rcode (default NOERROR)
//	logged PATTERN         waits until that daemon has logged a line that matches
//	signal NAME            sends a signal to that daemon, such as USR1
//	watched                waits until a client watches that daemon
//	olddaemon              a daemon of an earlier version in $ROOT, which only knows the status
//	exits CODE COMMAND...  a program that exits with CODE
//	until COMMAND... -- TEXT  repeats a program until its masked output contains this text
//	masked                 the last program's output with varying parts masked, for `cmp stdout`;
//	                       addresses of nameservers become NAME:53 (-update writes the output)
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: golden.Updating(),
		Setup: func(env *testscript.Env) error {
			root := lab.ShortDir(t) // $WORK is too long for the path of a unix socket
			env.Setenv("ROOT", root)
			// With -race, each program would sleep for a second when it ends.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Values[masksKey{}] = &masks{root, ""}
			env.Values[sitesKey{}] = map[string]*dnstest.Server{}
			env.Values[daemonKey{}] = &running{said: new(lab.Text)}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "until": until, "site": site, "cluster": clusterAPI, "serve": serveRoot, "ask": ask, "masked": masked, "watched": watched, "logged": logged,
			"signal": sendSignal, "olddaemon": oldDaemon, "fails": fails,
		},
	})
}

// exits runs a program and checks its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("%v exits with %d, want %d", args[1:], got, want)
	}
}

// until repeats a program, ignoring its exit code.
func until(ts *testscript.TestScript, neg bool, args []string) {
	split := len(args) - 2
	if neg || split < 1 || args[split] != "--" {
		ts.Fatalf("usage: until COMMAND... -- TEXT")
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		_ = ts.Exec(args[0], args[1:split]...)
		if strings.Contains(masksOf(ts).mask(ts.ReadFile("stdout")), args[split+1]) {
			return
		}
	}
	ts.Fatalf("%v never printed %q", args[:split], args[split+1])
}

func site(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: site NAME FILE")
	}
	server, err := dnstest.Start(ts.ReadFile(args[1]))
	ts.Check(err)
	ts.Defer(server.Close)
	sitesOf(ts)[args[0]] = server
	ts.Setenv(args[0], server.Addr().String())
	masksOf(ts).add(server.Addr().String(), args[0]+":53")
}

type sitesKey struct{}

// sitesOf returns the nameservers by name.
func sitesOf(ts *testscript.TestScript) map[string]*dnstest.Server {
	return ts.Value(sitesKey{}).(map[string]*dnstest.Server)
}

func fails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || sitesOf(ts)[args[0]] == nil {
		ts.Fatalf("usage: fails NAME")
	}
	sitesOf(ts)[args[0]].SetFaults(dnstest.Faults{Drop: true})
}

func clusterAPI(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: cluster FILE")
	}
	api, err := kubetest.StartAt("127.0.0.1:0")
	ts.Check(err)
	ts.Defer(api.Close)
	api.Apply(ts.ReadFile(args[0]))
	// Below the root, where node-dns.yaml names it.
	path := filepath.Join(ts.Getenv("ROOT"), "etc/node-dns/kubeconfig")
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
	ts.Check(os.WriteFile(path, api.Kubeconfig(), 0o600))
	ts.Setenv("KUBECONFIG", path)
	masksOf(ts).add(api.URL(), "https://API:6443")
}

// serveRoot starts the daemon, which ends with the script.
func serveRoot(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: serve [ARGS...]")
	}
	root := ts.Getenv("ROOT")
	cmd := exec.Command("node-dns", append([]string{"--root", root, "serve", "--listen", "127.0.0.1:0"}, args...)...)
	daemon := ts.Value(daemonKey{}).(*running)
	said := daemon.said
	cmd.Stderr = said
	ts.Check(cmd.Start())
	daemon.process = cmd.Process
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ts.Defer(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		<-ended
		ts.Logf("[daemon]\n%s", said)
	})
	status, err := awaitServing(control.SocketPath(root), ts.Getenv("KUBECONFIG") != "")
	if err != nil {
		ts.Fatalf("%v\n%s", err, said)
	}
	ts.Setenv("AT", status.Listeners[0].Address)
	masksOf(ts).add(status.Listeners[0].Address, "127.0.0.1:53")
	if status.Node.IP != "" {
		masksOf(ts).add(status.Node.IP, "NODE")
	}
}

// awaitServing returns the status of a daemon once it is ready, and knows the cluster if there is
// one.
func awaitServing(path string, cluster bool) (control.Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		if err := control.AwaitReady(ctx, path); err != nil {
			return control.Status{}, err
		}
		status, err := control.FetchStatus(ctx, path)
		if err != nil || !cluster || status.Cluster.Resolver != nil && status.Cluster.Resolver.Phase == "synced" {
			return status, err
		}
	}
}

func oldDaemon(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: olddaemon")
	}
	listener, err := control.Listen(control.SocketPath(ts.Getenv("ROOT")))
	ts.Check(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	api := control.API{Status: func(context.Context) control.Status { return control.Status{Version: "0.9"} }}
	go func() { ended <- control.Serve(ctx, listener, api) }()
	ts.Defer(func() {
		cancel()
		ts.Check(<-ended)
	})
}

func ask(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: ask NAME TYPE [RCODE]")
	}
	want := "NOERROR"
	if len(args) > 2 {
		want = args[2]
	}
	at, err := netip.ParseAddrPort(ts.Getenv("AT"))
	ts.Check(err)
	client := dns.Client{Timeout: 20 * time.Second}
	response, _, err := client.Exchange(new(dns.Msg).SetQuestion(dns.Fqdn(args[0]), dns.StringToType[args[1]]), at.String())
	ts.Check(err)
	if got := dns.RcodeToString[response.Rcode]; got != want {
		ts.Fatalf("%s %s: got %s, want %s", args[0], args[1], got, want)
	}
}

// logged waits for a matching log line after the previous match.
func logged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: logged PATTERN")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	daemon := ts.Value(daemonKey{}).(*running)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		text := daemon.said.String()[daemon.read:]
		if found := pattern.FindStringIndex(text); found != nil {
			daemon.read += found[1]
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no line matches %s in\n%s", pattern, text)
		}
	}
}

// running is the script's daemon.
type running struct {
	process *os.Process
	said    *lab.Text // its log
	read    int       // bytes of the log already checked
}

type daemonKey struct{}

// sendSignal sends a signal to the daemon.
func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || unix.SignalNum("SIG"+args[0]) == 0 {
		ts.Fatalf("usage: signal NAME")
	}
	ts.Check(ts.Value(daemonKey{}).(*running).process.Signal(unix.SignalNum("SIG" + args[0])))
}

// watched waits for the client that was started before it in the background.
func watched(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: watched")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		status, err := control.FetchStatus(ctx, control.SocketPath(ts.Getenv("ROOT")))
		ts.Check(err)
		if status.Watched.Monitors > 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// masks alternate between strings and their replacements.
type masks []string

type masksKey struct{}

func masksOf(ts *testscript.TestScript) *masks { return ts.Value(masksKey{}).(*masks) }

func (m *masks) add(text, shown string) { *m = append(*m, text, shown) }

// varying lists what differs between runs, besides addresses.
var varying = []struct {
	pattern *regexp.Regexp
	shown   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "DATE"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d(\.\d+)?\b`), "CLOCK"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ms|µs)|\b\d+\.\d+s\b`), "TIME"},
	{regexp.MustCompile(`(running|for|age) \d+[dhms]( \d+[hms])?\b`), "$1 AGE"},
	{regexp.MustCompile(`("?\b(ttl|age)"?): \d+`), "$1: N"},
	{regexp.MustCompile(`(\S  )\d+(  IN  )`), "${1}TTL$2"}, // of a cached record
	{regexp.MustCompile(`\b\d+[dhms]( \d+[hms])? old\b`), "AGE old"},
	{regexp.MustCompile(`\b(cached|stale) \d+[dhms]( \d+[hms])?\b`), "$1 AGE"},
	{regexp.MustCompile(`\bTTL \d+`), "TTL N"},
	{regexp.MustCompile(`(Nanoseconds"?: ?)\d+`), "${1}N"},
	{regexp.MustCompile(`\bpid \d+`), "pid PID"},
	{regexp.MustCompile(`\bkernel \S+\b`), "kernel RELEASE"},
	{regexp.MustCompile(`may open \d+ files`), "may open N files"},
	{regexp.MustCompile(`(\bup +TIME) +\d+`), "$1  N"}, // includes loop probes
	{regexp.MustCompile(`(\S)  +`), "$1  "},            // column widths depend on masked text
}

func (m *masks) mask(text string) string {
	text = strings.NewReplacer(*m...).Replace(text)
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.shown)
	}
	return text
}

func masked(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: masked")
	}
	_, err := fmt.Fprint(ts.Stdout(), masksOf(ts).mask(ts.ReadFile("stdout")))
	ts.Check(err)
}
