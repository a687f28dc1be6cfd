package lab

import (
	"flag"
	"strconv"
)

// Overlap makes n parallel tests of a package run at a time instead of one per CPU, because they
// mostly wait. Call it in TestMain, before the tests run. -parallel on the command line wins.
func Overlap(n int) {
	flag.Parse()
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	if isSet {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // package testing defines the flag
	}
}
