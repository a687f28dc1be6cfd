package nodeconfig

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
)

// check validates the facts by the rules of their keys.
func (f *Facts) check() error {
	c := &factsChecker{}
	checkValue(c, "clusterDomain", asDomain, f.ClusterDomain)
	checkValues(c, "dnsIPs", asIP, f.DNSIPs...)
	checkValue(c, "nodeIP", asNodeIP, f.NodeIP)
	checkValue(c, "dnsBindAddress", asBind, f.DNSBindAddress)
	checkValues(c, "dnsNameservers", asServer, f.DNSNameservers...)
	checkValues(c, "podCIDRs", asPrefix, f.PodCIDRs...)
	checkValue(c, "nodeName", asNodeName, f.NodeName)
	for _, path := range []string{f.File, f.DNSRecursiveResolvConf, f.MasterKubeConfig, f.KubeletResolvConf} {
		checkValue(c, "a path", asPath, path)
		if path != "" && path != filepath.Join("/", path) {
			c.fail("a path", "an absolute one", path)
		}
	}
	for key, line := range f.Lines {
		c.place("lines", line, 1, key)
	}
	for _, fault := range f.Faults {
		c.place("faults", fault.Line, fault.Column, fault.Key, fault.Expected)
	}
	return errors.Join(c.errs...)
}

type factsChecker struct{ errs []error }

func (c *factsChecker) fail(key, expected, got string) {
	c.errs = append(c.errs, fmt.Errorf("%s: expected %s, got %s", key, expected, Quote(got)))
}

// checkValue checks a value against a syntax. The zero value, which the file omits, is valid.
func checkValue[T comparable](c *factsChecker, key string, as syntax[T], value T) {
	var zero T
	if value != zero {
		checkValues(c, key, as, value)
	}
}

func checkValues[T comparable](c *factsChecker, key string, as syntax[T], values ...T) {
	for _, value := range values {
		text := fmt.Sprint(value)
		if again, err := as.parse(text); err != nil || again != value {
			c.fail(key, as.expected, text)
		}
	}
}

// place checks values that appear in log lines.
func (c *factsChecker) place(key string, line, column int, texts ...string) {
	if line < 1 || column < 1 {
		c.fail(key, "a line and a column from 1", strconv.Itoa(line)+":"+strconv.Itoa(column))
	}
	for _, text := range texts {
		if len(text) > 4*maxQuoted || strings.ContainsFunc(text, unicode.IsControl) {
			c.fail(key, "one short line", text)
		}
	}
}
