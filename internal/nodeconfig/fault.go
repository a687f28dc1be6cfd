package nodeconfig

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// maxFaults bounds what is said about one file; nobody reads more.
const maxFaults = 100

// A Fault is one mistake in a configuration file. Its texts are one line each and hold no control characters, whatever
// the file holds.
type Fault struct {
	File   string
	Line   int // from 1
	Column int // from 1, in characters
	// Key is the path of the key, as "dnsIP", "routes[2].domain" or "kubeletArguments.cluster-dns[0]"; "" when the fault
	// is the file's own.
	Key      string
	Expected string // what may stand there: "an IP address"
	Got      string // what does: a quoted text, or "a list"
}

// Error is "FILE:LINE:COLUMN: key: expected …, got …".
func (f *Fault) Error() string {
	key := ""
	if f.Key != "" {
		key = f.Key + ": "
	}
	return fmt.Sprintf("%s:%d:%d: %sexpected %s, got %s", termtext.Escape(f.File), f.Line, f.Column, key, f.Expected, f.Got)
}

// Faults returns the faults that are joined in an error of this package, in the order of the files and their lines.
// Errors that are no faults, a file that cannot be read, are not among them.
func Faults(err error) []*Fault {
	if fault, ok := err.(*Fault); ok {
		return []*Fault{fault}
	}
	var all []*Fault
	switch wrapped := err.(type) {
	case interface{ Unwrap() []error }:
		for _, err := range wrapped.Unwrap() {
			all = append(all, Faults(err)...)
		}
	case interface{ Unwrap() error }:
		all = Faults(wrapped.Unwrap())
	}
	return all
}

// faultList gathers the faults of one file.
type faultList struct {
	file   string
	faults []*Fault // at most maxFaults+1
	count  int      // of all, the ones left out too
}

func (l *faultList) add(line, column int, key, expected, got string) {
	l.count++
	if len(l.faults) > maxFaults {
		return
	}
	f := &Fault{File: l.file, Line: max(line, 1), Column: max(column, 1), Key: key, Expected: expected, Got: got}
	if len(l.faults) == maxFaults {
		f.Key, f.Expected, f.Got = "", fmt.Sprintf("at most %d faults in a file", maxFaults), "more, which are not listed"
	}
	l.faults = append(l.faults, f)
}

// err joins the faults in the order of the file, which is not the order in which keys are read.
func (l *faultList) err() error {
	sorted := slices.Clone(l.faults)
	slices.SortStableFunc(sorted[:min(len(sorted), maxFaults)], func(a, b *Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	errs := make([]error, len(sorted))
	for i, f := range sorted {
		errs[i] = f
	}
	return errors.Join(errs...)
}
