package hostdns

import (
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// TestWanted: when the privileged half is asked to read the cluster's file for the daemon, whether
// the daemon listens or not.
func TestWanted(t *testing.T) {
	paths := NewPaths(t.TempDir())
	facts, credentials := paths.Facts, paths.Kubeconfig
	tests := []struct {
		name    string
		config  nodeconfig.Config
		found   nodeconfig.Kubeconfig
		isFirst bool
		want    []string
	}{
		{"read here", nodeconfig.Config{}, nodeconfig.Kubeconfig{Original: "/k", Use: "/k"}, true, nil},
		{"needed", nodeconfig.Config{FactsWanted: "why"}, nodeconfig.Kubeconfig{}, false, []string{facts}},
		{"needed, at the start", nodeconfig.Config{FactsWanted: "why", FactsFile: facts}, nodeconfig.Kubeconfig{}, true, []string{facts}},
		{"read for us, at the start", nodeconfig.Config{FactsFile: facts}, nodeconfig.Kubeconfig{}, true, []string{facts}},
		{"read for us", nodeconfig.Config{FactsFile: facts}, nodeconfig.Kubeconfig{}, false, nil},
		{"credentials needed", nodeconfig.Config{}, nodeconfig.Kubeconfig{Original: "/k", Use: "/k", Wanted: "why"}, false, []string{credentials}},
		{"credentials handed over", nodeconfig.Config{}, nodeconfig.Kubeconfig{Original: "/k", Use: credentials}, false, nil},
		{"credentials handed over, at the start", nodeconfig.Config{}, nodeconfig.Kubeconfig{Original: "/k", Use: credentials}, true, []string{credentials}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := Look{State: State{Paths: paths, Config: test.config}, Kubeconfig: test.found, IsFirst: test.isFirst}
			if got := new(Requester).Wanted(time.Time{}, l); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
			l.InPod = true
			if got := new(Requester).Wanted(time.Time{}, l); got != nil {
				t.Errorf("in a pod: %v", got)
			}
		})
	}
}

// TestWantedWhereNothingIsSeen: at boot NetworkManager's last event came 4 ms before the daemon
// listened. An /etc/resolv.conf of mode 0600 then named a nameserver that did not answer, until the
// next event.
func TestWantedWhereNothingIsSeen(t *testing.T) {
	var r Requester
	paths := NewPaths(t.TempDir())
	const here, elsewhere = true, false // whether node-dns listens on the address for resolv.conf
	denied := &fs.PathError{Op: "open", Path: "/etc/resolv.conf", Err: fs.ErrPermission}
	for _, step := range []struct {
		name string
		at   bool
		err  error
		want []string
	}{
		{"node-dns does not answer yet", elsewhere, denied, nil},
		{"node-dns starts to answer", here, denied, []string{paths.ResolvConf}},
		{"the hook has looked", here, denied, nil},
		{"another address", elsewhere, denied, nil},
		{"the address is back", here, denied, []string{paths.ResolvConf}},
		{"the address is gone again", elsewhere, nil, nil},
		{"back, and readable", here, nil, nil},
	} {
		l := Look{State: State{Paths: paths, ResolvConf: File{Exists: true, Err: step.err}}, IsAnswered: step.at}
		if got := r.Wanted(time.Time{}, l); !slices.Equal(got, step.want) {
			t.Errorf("%s: got %v, want %v", step.name, got, step.want)
		}
	}
}

// TestAwaitsWayBack: the missing stamp is asked for while node-dns answers, but not for ever.
func TestAwaitsWayBack(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	r := Requester{Invocation: "1"}
	lacking := Look{State: State{Paths: NewPaths("")}, Plan: Plan{Hold: NoWayBack}, IsAnswered: true}
	silent := lacking
	silent.IsAnswered = false
	for _, step := range []struct {
		name string
		at   time.Duration
		look Look
		want bool
	}{
		{"node-dns does not answer yet", 0, silent, false},
		{"it answers", time.Minute, lacking, true},
		{"soon", 5 * time.Minute, lacking, true},
		{"systemd does not run the hook", 6 * time.Minute, lacking, false},
	} {
		if got := len(r.Wanted(start.Add(step.at), step.look)) > 0; got != step.want {
			t.Errorf("%s: wanted: %v, want %v", step.name, got, step.want)
		}
	}
	if got := new(Requester).Wanted(start, lacking); got != nil {
		t.Errorf("started by hand: %v", got)
	}
}
