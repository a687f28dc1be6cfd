package cluster

import (
	"bytes"
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
)

// world is a Watcher, and the API server that it watches.
type world struct {
	t       testing.TB
	server  *kubetest.Server
	config  Config
	watcher *Watcher
	log     *logText
	stop    func()

	mu        sync.Mutex // guards what follows
	latest    *zone.Snapshot
	published int
	unready   []string
}

// newWorld has an API server with the objects of the fixture, and no Watcher yet.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := newWorldOf(t, kubetest.NewServer(t))
	w.server.Apply(readFixture(t, "node-dns"))
	w.writeKubeconfig()
	t.Cleanup(func() { w.stop() })
	return w
}

// newWorldOf has a Watcher for server, whose pauses are as short as chance lets them be.
func newWorldOf(t testing.TB, server *kubetest.Server) *world {
	t.Helper()
	w := &world{t: t, server: server, log: new(logText), stop: func() {}}
	dir := t.TempDir()
	w.config = Config{
		Kubeconfig:   filepath.Join(dir, "kubeconfig"),
		SnapshotFile: filepath.Join(dir, "cluster.snapshot"),
		Version:      "test",
		Log:          slog.New(slog.NewTextHandler(w.log, nil)),
		Chance:       func() float64 { return 0 },
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

// start runs a new Watcher until stop.
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

// hasSaid fails the test unless the log has a line with this in it and at its end.
func (w *world) hasSaid(part, end string) {
	w.t.Helper()
	for line := range strings.Lines(w.log.String()) {
		if strings.Contains(line, part) && strings.HasSuffix(line, end) {
			return
		}
	}
	w.t.Errorf("no line with %q … %q in the log:\n%s", part, end, w.log)
}

// times returns how often something was published.
func (w *world) times() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.published
}

// reasons returns what was said to those who asked too early.
func (w *world) reasons() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.unready, "\n")
}

// await waits until holds is true of what is published.
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

// awaitError waits until the State's error has this in it.
func (w *world) awaitError(part string) {
	w.t.Helper()
	w.until("error "+part, func() bool { return strings.Contains(w.watcher.State().LastError, part) })
}

// until waits until holds is true.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			w.t.Fatalf("not within 20 s: %s\nstate %+v\n%s", what, w.watcher.State(), w.log)
		}
		time.Sleep(time.Millisecond)
	}
}

// certificateOf returns a certificate that proves nothing.
func certificateOf(t testing.TB) []byte {
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
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// fixtures has the objects that the tests of zone are about too.
const fixtures = "../../dns/zone/testdata"

// readFixture returns the objects of a fixture as real controllers have written them.
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

// logText collects a log.
type logText struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
