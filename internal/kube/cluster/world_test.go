package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/test/kubetest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// world is an API server and a Watcher of it.
type world struct {
	t       testing.TB
	server  *kubetest.Server
	config  Config
	watcher *Watcher
	log     *lab.Text
	stop    func()

	mu        sync.Mutex // guards what follows
	latest    *zone.Snapshot
	published int
	unready   []string
}

// newWorld returns a world with the fixture's objects. The Watcher is not started.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := newWorldOf(t, kubetest.NewServer(t))
	w.server.Apply(readFixture(t, "node-dns"))
	w.writeKubeconfig()
	t.Cleanup(func() { w.stop() })
	return w
}

// newWorldOf returns a world with a Watcher of server. Its Chance makes all pauses as short as
// possible.
func newWorldOf(t testing.TB, server *kubetest.Server) *world {
	t.Helper()
	w := &world{t: t, server: server, log: new(lab.Text), stop: func() {}}
	dir := t.TempDir()
	w.config = Config{
		Kubeconfig:   filepath.Join(dir, "kubeconfig"),
		SnapshotFile: filepath.Join(dir, "cluster.snapshot"),
		Version:      "test",
		Log:          slog.New(slog.NewTextHandler(w.log, nil)),
		Chance:       func() float64 { return 0 },
		LookEvery:    50 * time.Millisecond,
		Publish:      w.publish,
		Unready:      w.setUnready,
	}
	return w
}

func (w *world) writeKubeconfig() {
	w.t.Helper()
	if err := os.WriteFile(w.config.Kubeconfig, w.server.Kubeconfig(), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// start runs a new Watcher until stop is called.
func (w *world) start() {
	w.t.Helper()
	w.mu.Lock()
	w.latest, w.published, w.unready = nil, 0, nil
	w.mu.Unlock()
	w.watcher = New(w.config)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.watcher.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run: %v", err)
		}
	})
}

func (w *world) publish(s *zone.Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latest = s
	w.published++
}

func (w *world) setUnready(reason error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unready = append(w.unready, reason.Error())
}

func (w *world) snapshot() *zone.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest
}

// wantLogged fails the test unless the log has a line that contains part and ends with end.
func (w *world) wantLogged(part, end string) {
	w.t.Helper()
	for line := range strings.Lines(w.log.String()) {
		if strings.Contains(line, part) && strings.HasSuffix(line, end) {
			return
		}
	}
	w.t.Errorf("no line with %q … %q in the log:\n%s", part, end, w.log)
}

// times returns the number of publications.
func (w *world) times() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.published
}

// reasons returns all reasons passed to Unready.
func (w *world) reasons() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.unready, "\n")
}

// await waits until holds returns true for the published snapshot.
func (w *world) await(what string, holds func(s *zone.Snapshot) bool) {
	w.t.Helper()
	w.until(what, func() bool {
		s := w.snapshot()
		return s != nil && holds(s)
	})
}

func (w *world) awaitPhase(phase Phase) (s State) {
	w.t.Helper()
	w.until("phase "+phase.String(), func() bool {
		s = w.watcher.State()
		return s.Phase == phase
	})
	return s
}

// awaitError waits until the State's error contains part.
func (w *world) awaitError(part string) {
	w.t.Helper()
	w.until("error "+part, func() bool { return strings.Contains(w.watcher.State().LastError, part) })
}

// until waits until holds returns true.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			w.t.Fatalf("timed out after 20 s: %s\nstate %+v\n%s", what, w.watcher.State(), w.log)
		}
		time.Sleep(time.Millisecond)
	}
}

// certificateOf returns a self-signed certificate.
func certificateOf(t testing.TB) []byte {
	certificate, _ := pairOf(t)
	return certificate
}

// pairOf returns a new certificate and its key, in PEM.
func pairOf(t testing.TB) (certificate, private []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err = x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

// fixtures are the objects that the tests of package zone also use.
const fixtures = "../../dns/zone/testdata"

// readFixture returns the objects of a fixture, as written by real controllers.
func readFixture(t testing.TB, name string) string {
	t.Helper()
	return readFile(t, filepath.Join(fixtures, name+".static.yaml"))
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
