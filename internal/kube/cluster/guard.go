package cluster

import (
	"errors"

	"github.com/node-dns/node-dns/internal/sys/journal"
)

var errPanicked = errors.New("internal error")

// guard has a panic fail f alone: a fault in what reads the API must not take the nameserver with it.
func (c Config) guard(f func() error) func() error {
	return func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				c.Panics.Caught(c.Log, "task panicked", journal.TaskPanic, p, "task", "watch cluster")
				err = errPanicked
			}
		}()
		return f()
	}
}
