package dbusconn

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/node-dns/node-dns/internal/test/lab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNobodyListens(t *testing.T) {
	_, err := DialManager(t.Context(), filepath.Join(lab.ShortDir(t), "private"))
	if !errors.Is(err, ErrNoBus) {
		t.Errorf("got %v", err)
	}
}

// TestHangs: if a manager accepts connections but does not answer, DialManager returns when ctx
// ends.
func TestHangs(t *testing.T) {
	path := filepath.Join(lab.ShortDir(t), "private")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := DialManager(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
