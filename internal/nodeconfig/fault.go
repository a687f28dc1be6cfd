package nodeconfig

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// maxFaults bounds the faults reported for one file.
const maxFaults = 100

// A Fault is one mistake in a configuration file. Its strings have one line each and no control
// characters, whatever the file contains.
type Fault struct {
	File   string
	Line   int // from 1
	Column int // from 1, in characters
	// Key is the path of the key, such as "dnsIP", "routes[2].domain" or
	// "kubeletArguments.cluster-dns[0]". It is empty if the fault concerns the whole file.
	Key      string
	Expected string // what is valid: "an IP address"
	Got      string // what the file has: a quoted text, or "a list"
}

// Error returns "FILE:LINE:COLUMN: key: expected …, got …".
func (f *Fault) Error() string {
	key := ""
	if f.Key != "" {
		key = f.Key + ": "
	}
	return fmt.Sprintf("%s:%d:%d: %sexpected %s, got %s", termtext.Escape(f.File), f.Line, f.Column, key, f.Expected, f.Got)
}

// Faults returns the faults in an error of this package, in the order of files and lines. Other
// errors, such as for an unreadable file, are not included.
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

// faultList collects the faults of one file.
type faultList struct {
	file   string
	faults []*Fault // at most maxFaults+1
	count  int      // of all faults, including dropped ones
}

func (l *faultList) add(line, column int, key, expected, got string) {
	l.count++
	if len(l.faults) > maxFaults {
		return
	}
	f := &Fault{File: l.file, Line: max(line, 1), Column: max(column, 1), Key: key, Expected: expected, Got: got}
	if len(l.faults) == maxFaults {
		f.Key, f.Expected, f.Got = "", fmt.Sprintf("at most %d errors in a file", maxFaults), "more, which are not listed"
	}
	l.faults = append(l.faults, f)
}

// err joins the faults in file order, which differs from the order in which keys are read.
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
