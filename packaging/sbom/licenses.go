package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// licenseFile matches the files with licenses among those that `go mod vendor` copies.
var licenseFile = regexp.MustCompile(`(?i)^(licen[sc]e|copying)`)

// moduleLicenses returns the SPDX expression of each module: all licenses in its files of the
// vendor directory, joined with AND. A module without a known license is an error.
func moduleLicenses(vendor string, modules []module) (map[module]string, error) {
	isModule := map[string]bool{}
	for _, m := range modules {
		isModule[filepath.Join(vendor, m.path)] = true
	}
	licenses := map[module]string{}
	var faults []error
	for _, m := range modules {
		top := filepath.Join(vendor, m.path)
		var all []string
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && path != top && isModule[path]:
				return fs.SkipDir // a module of its own, such as k8s.io/klog/v2 below k8s.io/klog
			case d.IsDir() || !licenseFile.MatchString(d.Name()) || strings.HasSuffix(path, ".go"):
				return nil
			}
			found, err := licensesOf(path)
			all = append(all, found...)
			return err
		})
		if err == nil && len(all) == 0 {
			err = fmt.Errorf("%s has no file with a license", top)
		}
		faults = append(faults, err)
		slices.Sort(all)
		licenses[m] = strings.Join(slices.Compact(all), " AND ")
	}
	return licenses, errors.Join(faults...)
}

// licensesOf returns the SPDX identifiers of the license texts in a file.
func licensesOf(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, match := range licensecheck.Scan(text).Match {
		if !match.IsURL {
			all = append(all, match.ID)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no license that licensecheck knows", path)
	}
	return all, nil
}
