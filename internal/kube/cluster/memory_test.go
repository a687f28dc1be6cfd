package cluster

import (
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// fakeTime is synctest.Test, skipped under the race detector. The race detector of Go 1.26 crashed
// in one of three runs of this package, on tests that fire many timers with fake time (golang/go
// issue 78156). `make test` runs the package once more without it.
func fakeTime(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("no build information")
	}
	if slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector crashes on it: golang/go issue 78156")
	}
	synctest.Test(t, f)
}

// newKnownWorld is newFakeWorld with a Watcher that has had a minute to read the fixture's objects.
func newKnownWorld(t *testing.T) (*world, *kubetest.Wire) {
	t.Helper()
	w, network := newFakeWorld(t)
	w.server.Apply(readFixture(t, "node-dns"))
	w.start()
	time.Sleep(time.Minute)
	synctest.Wait()
	return w, network
}

// newFakeWorld is newWorld over an in-memory network, for tests with fake time. The API server is
// empty.
func newFakeWorld(t *testing.T) (*world, *kubetest.Wire) {
	t.Helper()
	n := kubetest.NewWire()
	w := newWorldOf(t, kubetest.New())
	server := &http.Server{Handler: w.server, ReadHeaderTimeout: time.Hour}
	done := make(chan error, 1)
	go func() { done <- server.Serve(n) }()
	t.Cleanup(func() {
		w.stop()
		w.server.CloseWatches()
		server.Close()
		<-done
	})
	w.config.Dial = n.Dial
	w.config.LookEvery = time.Minute // the tests simulate days, and few change the files
	w.config.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	const kubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://192.0.2.6"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
current-context: c
`
	if err := os.WriteFile(w.config.Kubeconfig, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return w, n
}
