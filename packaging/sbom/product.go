package main

import (
	"cmp"
	"crypto/sha1" // SPDX 2.3 requires the SHA1 of each file
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// product is what the document describes.
type product struct {
	name, version string
	license       string // SPDX expression of the whole product
	time          time.Time
	programs      []program
	debian        []debianPackage
	licenses      map[module]string // SPDX expression of each module
	sums          map[module]string // hash of each module in go.sum, "h1:..."
}

// file is a file of the product, with its name in it.
type file struct {
	name         string
	sha1, sha256 string // hexadecimal
}

// program is a Go program and the modules it was linked from.
type program struct {
	file
	compiler string // version of Go, such as "1.26.8"
	modules  []module
}

// module is a Go module that a program was linked from.
type module struct{ path, version string }

// debianPackage is the source of a file that comes from the build host.
type debianPackage struct {
	name, version, license string
	file                   file
}

// readSums returns the hashes in a file go.sum. Programs that were built from a vendor directory,
// such as those of the RPM, do not contain them.
func readSums(path string) (map[module]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	sums := map[module]string{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || !strings.HasPrefix(fields[2], "h1:") {
			return nil, fmt.Errorf("%s: expected MODULE VERSION h1:HASH, got %q", path, line)
		}
		sums[module{path: fields[0], version: fields[1]}] = fields[2]
	}
	return sums, nil
}

// check returns an error for each module without a hash, such as a replacement by a directory.
func (p product) check() error {
	var faults []error
	for _, m := range p.modules() {
		if p.sums[m] == "" {
			faults = append(faults, fmt.Errorf("go.sum has no hash of %s %s, which a program contains", m.path, m.version))
		}
	}
	return errors.Join(faults...)
}

// modules returns the modules of all programs, sorted, without duplicates.
func (p product) modules() []module {
	all := map[module]bool{}
	for _, program := range p.programs {
		for _, m := range program.modules {
			all[m] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b module) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.version, b.version))
	})
}

// compilers returns the versions of Go, whose standard library the programs contain.
func (p product) compilers() []string {
	var all []string
	for _, program := range p.programs {
		all = append(all, program.compiler)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func readFile(name, path string) (file, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return file{}, err
	}
	short, long := sha1.Sum(data), sha256.Sum256(data)
	return file{name: name, sha1: hex.EncodeToString(short[:]), sha256: hex.EncodeToString(long[:])}, nil
}

func readProgram(name, path string) (program, error) {
	f, err := readFile(name, path)
	if err != nil {
		return program{}, err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return program{}, fmt.Errorf("reading the modules of %s: %w", path, err)
	}
	// The version may be followed by experiments, as in "go1.26.8 X:nodwarf5".
	version, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	p := program{file: f, compiler: version}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		p.modules = append(p.modules, module{path: dep.Path, version: dep.Version})
	}
	return p, nil
}
