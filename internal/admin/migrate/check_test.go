package migrate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestRetry proves that the error is from the last attempt that had enough time, not the timeout of
// an attempt that was cut off.
func TestRetry(t *testing.T) {
	servfail, late := errors.New("answers SERVFAIL"), errors.New("i/o timeout")
	for _, row := range []struct {
		name string
		try  func(ctx context.Context, n int) error
		want error
	}{
		{"succeeds at once", func(context.Context, int) error { return nil }, nil},
		{"succeeds after retries", func(_ context.Context, n int) error { return map[bool]error{n < 3: servfail}[true] }, nil},
		{"always fails", func(context.Context, int) error { return servfail }, servfail},
		{"the last try is cut short", func(ctx context.Context, n int) error {
			if n == 1 {
				return servfail
			}
			<-ctx.Done()
			return late
		}, servfail},
		{"the only one is down too", func(ctx context.Context, _ int) error { <-ctx.Done(); return late }, late},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				n := 0
				if got := retry(ctx, func() error { n++; return row.try(ctx, n) }); got != row.want {
					t.Errorf("got %v, want %v", got, row.want)
				}
			})
		})
	}
}
