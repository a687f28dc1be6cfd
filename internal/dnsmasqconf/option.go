package dnsmasqconf

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// Followed returns the options that have an effect here, sorted.
func Followed() []string {
	var names []string
	for name, known := range words {
		if known.aside == "" && known.met == "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// option applies one option. word starts at begin, the argument at l.at.
func (l *loader) option(name, text string, has bool, begin position) {
	known, ok := words[name]
	if !ok {
		l.at = begin
		l.fault("", fmt.Sprintf("an option of dnsmasq (the nearest is %s)", nodeconfig.Nearest(name, slices.Sorted(maps.Keys(words)))),
			nodeconfig.Quote(name))
		return
	}
	switch {
	case known.argument == bare && has:
		l.fault(name, "no argument", nodeconfig.Quote(shown(text)))
		return
	case known.argument == valued && !has:
		l.fault(name, "an argument", "none")
		return
	case l.stock && leavesOut(name):
		l.setAside(name, notOfStock)
		return
	case known.once && l.once[name]:
		l.at = begin
		l.fault(name, "the option only once, as in dnsmasq", "a duplicate")
		return
	}
	l.once[name] = true
	if _, set := l.config.Sources[name]; !set {
		l.config.Sources[name] = l.place()
	}
	if known.aside != "" {
		l.setAside(name, known.aside)
		return
	}
	if known.met != "" {
		return
	}
	if known.argument == bare {
		l.config.Flags[name] = true
		return
	}
	if read := l.readers[name]; read != nil {
		read(l, name, text)
		return
	}
	l.number(name, text)
}

func (l *loader) setAside(name, why string) {
	l.config.Aside = append(l.config.Aside, Aside{name, l.place(), why})
}

// maxMinCacheTTL is dnsmasq's limit of min-cache-ttl, in seconds.
const maxMinCacheTTL = 3600

// number parses a number like atoi(3), except that an invalid number is a fault.
func (l *loader) number(name, text string) {
	n, err := strconv.ParseUint(shown(text), 10, 63)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		l.fault(name, "a number", nodeconfig.Quote(shown(text)))
		return
	}
	n = min(n, math.MaxInt32)
	if name == "min-cache-ttl" {
		n = min(n, maxMinCacheTTL)
	}
	l.config.Numbers[name] = int(n)
}

// list splits at commas and trims blanks from each part.
func list(text string) []string {
	parts := strings.Split(text, ",")
	for i, part := range parts {
		parts[i] = shown(strings.Trim(part, " "))
	}
	return parts
}

func readConfFile(l *loader, name, text string) {
	if text == "" {
		return
	}
	l.include(name, l.file(l.path(shown(text))))
}

func readConfDir(l *loader, name, text string) {
	dir, suffixes, _ := strings.Cut(text, ",")
	if suffixes != "" {
		suffixes = "," + suffixes
	}
	l.include(name, l.dir(l.path(shown(strings.Trim(dir, " ")))+shown(suffixes)))
}

// include turns a read error into a fault of the line that names the file.
func (l *loader) include(name string, err error) {
	if err == nil {
		return
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		l.fault(name, "a file that can be read", path.Path+": "+path.Err.Error())
		return
	}
	l.fault(name, "a file that can be read", err.Error())
}
