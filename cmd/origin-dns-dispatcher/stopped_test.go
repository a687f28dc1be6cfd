package main

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/sys/dbusconn"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestAftermath covers only the decision. test/nspawn covers its effect with systemd.
func TestAftermath(t *testing.T) {
	for job, want := range map[dbusconn.Job]aftermath{
		dbusconn.Stop:    restoreNow,
		dbusconn.Restart: leaveAlone,
		dbusconn.NoJob:   giveChance,
		dbusconn.Start:   giveChance,
		"verify-active":  giveChance,
	} {
		if got := aftermathOf(job); got != want {
			t.Errorf("job %q: got %s, want %s", job, got, want)
		}
	}
}

// TestSystemdIsAskedAgain: one missed deadline of systemd made a restart look like a stop. Here
// systemd does not answer on the first connection and refuses the next.
func TestSystemdIsAskedAgain(t *testing.T) {
	socket := filepath.Join(lab.ShortDir(t), "private")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accepted := make(chan int, 1)
	go func() {
		n := 0
		for {
			conn, err := listener.Accept()
			if err != nil {
				accepted <- n
				return
			}
			if n++; n > 1 {
				conn.Close()
			} else {
				defer conn.Close()
			}
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = askSystemd(ctx, socket, func(context.Context, *dbusconn.Manager) error { return nil })
	listener.Close()
	if got := <-accepted; got < 2 || !errors.Is(err, dbusconn.ErrNoBus) {
		t.Errorf("got %d connections, %v", got, err)
	}
}
