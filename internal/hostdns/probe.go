package hostdns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

const (
	probeTry   = 150 * time.Millisecond // timeout of the first query; the daemon needs less than 1 ms, but a busy node takes longer
	probeLimit = 800 * time.Millisecond // total wait for an answer or a restarting daemon
	probePause = 25 * time.Millisecond  // pause between tries
)

// silence gives a short reason why the nameserver did not answer: package net's own text repeats
// addresses and ports.
func silence(at netip.AddrPort, err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return fmt.Errorf("%s does not answer: %w", at, err)
}

// Probe asks the local nameserver what it calls itself. Any response counts, because after a
// rollback dnsmasq must answer. by is the nameserver's name, or "".
//
// Probe retries for 0.8 s, because an answer may be lost, or late while the node boots. If nothing
// listens, the kernel reports that at once. Only a patient probe retries then: the daemon may be
// restarting.
func Probe(ctx context.Context, at netip.AddrPort, patient bool) (by string, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	end, _ := ctx.Deadline()
	try := probeTry
	var reason error
	for {
		by, err := nameserver.Identify(ctx, new(net.Dialer), at, time.Now().Add(try))
		if err == nil {
			return by, nil
		}
		if reason == nil || time.Now().Before(end) { // otherwise only the time was up
			reason = err
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			try *= 2
		case !patient:
			return "", silence(at, reason)
		}
		select {
		case <-ctx.Done():
			return "", silence(at, reason)
		case <-time.After(probePause):
		}
	}
}
