package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/lab"
)

// TestPanickingStatus: a fault of the status ends that connection, which net/http says nothing of, and is counted and told.
func TestPanickingStatus(t *testing.T) {
	var log lab.Text
	d := &Daemon{log: slog.New(slog.NewTextHandler(&log, nil))}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	func() {
		defer func() {
			if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
				t.Errorf("net/http is told %v", err)
			}
		}()
		d.guardedStatus(ctx) // of a daemon that serves nothing
	}()
	d.refresh(func() { panic("out of cheese") })
	d.refreshes.Wait()
	if n := d.panics.Count(); n != 2 || strings.Count(log.String(), "stack=") != 2 {
		t.Errorf("%d panics are counted; the log is\n%s", n, log.String())
	}
}
