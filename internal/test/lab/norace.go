//go:build !race

package lab

// RaceEnabled reports whether the tests are built with -race.
const RaceEnabled = false
