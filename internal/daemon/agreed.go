package daemon

import "reflect"

// agreed delays a change of a configuration until two looks agree on it: a program that rewrites a
// file in place first empties it, and an empty file is valid. The zero value is ready to use.
type agreed[T any] struct{ last T }

// next returns the configuration to serve from now on. Normally it is the configuration in the
// files, so that the daemon agrees on the cluster domain with the hook, which reads them each time.
// The running one stays if the files are unusable (law 8), and until two looks agree; then again is
// true.
func (a *agreed[T]) next(running, seen T, isUnusable bool) (config T, again bool) {
	before := a.last
	a.last = seen
	switch {
	case isUnusable:
		return running, false
	case reflect.DeepEqual(seen, running), reflect.DeepEqual(seen, before):
		return seen, false
	}
	return running, true
}
