package cluster

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// TestBootstrap: a node starts before its credentials exist and before the cluster is up.
func TestBootstrap(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, network := newFakeWorld(t)
		kubeconfig := readFile(t, w.config.Kubeconfig)
		os.Remove(w.config.Kubeconfig)
		network.SetDown(true)
		w.config.LookEvery = 0
		w.start()
		phase := func(want Phase, after time.Duration, reason string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			got := w.watcher.State()
			if got.Phase != want || !strings.Contains(got.unready().Error(), reason) {
				t.Fatalf("%v: %v, want %v: %s", got.Phase, got.unready(), want, reason)
			}
		}
		phase(NoKubeconfig, time.Minute, "no kubeconfig at "+w.config.Kubeconfig)
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(w.config.Kubeconfig, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("clusters: {")
		phase(Unreadable, 5*time.Second, "kubeconfig")
		write("kind: Config\napiVersion: v1\n")
		phase(Unreadable, 5*time.Second, "it has no current-context")
		write(strings.Replace(kubeconfig, "user: {}", "user: {client-certificate: later.crt, client-key: later.key}", 1))
		phase(Unreadable, 5*time.Second, "later.crt")
		write(kubeconfig)
		phase(Connecting, time.Hour, kubetest.ErrDown.Error())
		if w.snapshot() != nil {
			t.Fatal("a snapshot is published before anything is known")
		}
		network.SetDown(false)
		phase(Synced, time.Minute, "")
		if w.snapshot() == nil || w.snapshot().IsStale() {
			t.Error("everything is known, but no snapshot is published")
		}
		if got := w.reasons(); !strings.Contains(got, "no kubeconfig") || !strings.Contains(got, kubetest.ErrDown.Error()) {
			t.Errorf("got the reasons\n%s", got)
		}
	})
}

// TestAilingServer: every kind of API server failure is reported, and the report ends with the
// failure.
func TestAilingServer(t *testing.T) {
	rows := []struct {
		name   string
		ail    func(*kubetest.Server)
		heal   func(*kubetest.Server)
		phase  Phase
		reason string
		rights int
	}{
		{
			"no permission to list", func(s *kubetest.Server) { s.Deny("list", "endpointslices") },
			func(s *kubetest.Server) { s.Grant("list", "endpointslices") },
			Forbidden, "no right to list endpointslices.discovery.k8s.io", 1,
		},
		{
			"no permission to watch", func(s *kubetest.Server) { s.Deny("watch", "namespaces") },
			func(s *kubetest.Server) { s.Grant("watch", "namespaces") },
			Synced, "no right to watch namespaces", 1, // the list that was just read is still valid
		},
		{"unauthorized", func(s *kubetest.Server) { s.SetToken("secret") }, func(s *kubetest.Server) { s.SetToken("") }, Forbidden, "401", 0},
		{"busy", func(s *kubetest.Server) { s.SetFaults(kubetest.Faults{Status: 429, RetryAfter: 3, Plain: true}) }, nil, Connecting, "429 Too Many Requests", 0},
		{"failing", func(s *kubetest.Server) { s.SetFaults(kubetest.Faults{Status: 500}) }, nil, Connecting, "500 Internal Server Error", 0},
		{"silent", func(s *kubetest.Server) { s.SetFaults(kubetest.Faults{Hang: true}) }, nil, Connecting, errStalled.Error(), 0},
		{"truncated lists", func(s *kubetest.Server) { s.SetFaults(kubetest.Faults{CutList: true, Lists: true}) }, nil, Connecting, "unexpected EOF", 0},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			fakeTime(t, func(t *testing.T) {
				w, _ := newFakeWorld(t)
				w.server.Apply(readFixture(t, "node-dns"))
				row.ail(w.server)
				w.start()
				time.Sleep(80 * time.Second)
				synctest.Wait()
				s := w.watcher.State()
				if s.Phase != row.phase && !(row.phase == Synced && s.Phase == Stale) || !strings.Contains(s.LastError, row.reason) || len(s.Missing) != row.rights {
					t.Errorf("got state %+v", s)
				}
				if row.phase == Forbidden {
					w.wantLogged("msg=cluster phase=forbidden ", " condition=cluster-forbidden\n")
				}
				if row.heal == nil {
					w.server.SetFaults(kubetest.Faults{})
				} else {
					row.heal(w.server)
				}
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				if s := w.watcher.State(); s.Phase != Synced || s.LastError != "" || w.snapshot().IsStale() {
					t.Errorf("after recovery: got state %+v", s)
				}
			})
		})
	}
}

// TestRetryAfter: the client obeys 429 with Retry-After and sends no earlier request.
func TestRetryAfter(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, _ := newFakeWorld(t)
		w.server.SetFaults(kubetest.Faults{Status: http.StatusTooManyRequests, RetryAfter: 20})
		w.start()
		time.Sleep(19 * time.Second)
		synctest.Wait()
		if n := len(w.server.Requests()); n != 1 {
			t.Errorf("got %d requests in 19 s, want 1", n)
		}
	})
}

// TestServerAway: an API server that is down for an hour does not remove cluster names, but the
// state is reported as stale.
func TestServerAway(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, network := newFakeWorld(t)
		w.server.Apply(readFixture(t, "node-dns"))
		w.start()
		time.Sleep(10 * time.Second)
		network.SetDown(true)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if s := w.watcher.State(); s.Phase != Synced || w.snapshot().IsStale() {
			t.Errorf("after 30 s: got state %+v", s)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := w.watcher.State(); s.Phase != Stale || !w.snapshot().IsStale() || !hasService("alpha", "web")(w.snapshot()) {
			t.Errorf("after one hour: got state %+v", s)
		}
		w.wantLogged("msg=cluster phase=synced ", " condition=cluster-synced\n")
		w.wantLogged("msg=cluster phase=stale ", " condition=cluster-stale\n")
		w.server.Delete("Service", "alpha", "web")
		network.SetDown(false)
		time.Sleep(maxBackoff + time.Second)
		synctest.Wait()
		if s := w.watcher.State(); s.Phase != Synced || w.snapshot().IsStale() || hasService("alpha", "web")(w.snapshot()) {
			t.Errorf("after the server is back: got state %+v", s)
		}
	})
}

// TestCredentialsChange: a changed token in the kubeconfig, or in a file that the kubeconfig names,
// takes effect without a restart.
func TestCredentialsChange(t *testing.T) {
	w := newWorld(t)
	ca, token := filepath.Join(t.TempDir(), "ca.crt"), "first"
	write := func(path string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig := func() {
		write(w.config.Kubeconfig, []byte(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "`+w.server.URL()+`", certificate-authority: "`+ca+`"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: "`+token+`"}}]
current-context: c
`))
	}
	w.server.SetToken("second")
	other := kubetest.NewServer(t)
	write(ca, certificateOf(t))
	kubeconfig()
	w.start()
	w.awaitPhase(Connecting)
	w.awaitError("certificate")
	write(ca, w.server.CA())
	w.awaitError("401")
	token = "second"
	kubeconfig()
	if s := w.awaitPhase(Synced); s.Counts.Services == 0 {
		t.Errorf("got state %+v", s)
	}
	// The server moves. The same CA signs for the other address.
	other.SetToken("second")
	other.Apply(`{apiVersion: v1, kind: Service, metadata: {name: moved, namespace: alpha}, spec: {clusterIP: 10.96.0.99}}`)
	write(w.config.Kubeconfig, []byte(strings.Replace(string(readFile(t, w.config.Kubeconfig)), w.server.URL(), other.URL(), 1)))
	w.await("only the objects of the other server", func(s *zone.Snapshot) bool {
		return hasService("alpha", "moved")(s) && !hasService("alpha", "web")(s)
	})
	if !strings.Contains(w.log.String(), "has another API server") {
		t.Error("the log does not report the other API server")
	}
}
