package cluster

import (
	"errors"

	"github.com/node-dns/node-dns/internal/sys/journal"
)

var errPanicked = errors.New("internal error")

// guard turns a panic in f into an error. A bug in reading the API must not stop the nameserver.
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
