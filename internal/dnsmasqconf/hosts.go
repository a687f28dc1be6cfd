package dnsmasqconf

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// maxHosts bounds the lines of all hosts files. Blocklists have 200,000.
const maxHosts = 1_000_000

// loadHosts reads /etc/hosts, unless no-hosts is set, and the files of addn-hosts and hostsdir. A
// missing file is not an error: dnsmasq starts without it. Invalid lines are skipped, as in
// dnsmasq.
func (l *loader) loadHosts() {
	l.config.Hosts = l.hosts
	var files []string
	if !l.config.Has("no-hosts") && l.paths.Hosts != "" {
		files = append(files, l.paths.Hosts)
	}
	for _, path := range l.config.HostsFile {
		entries, err := os.ReadDir(path)
		if err != nil {
			files = append(files, path)
			continue
		}
		l.config.Dirs = append(l.config.Dirs, path)
		for _, entry := range entries {
			if !isLeftover(entry.Name()) && !entry.IsDir() {
				files = append(files, filepath.Join(path, entry.Name()))
			}
		}
	}
	for _, path := range files {
		if !slices.Contains(l.config.Others, path) {
			l.config.Others = append(l.config.Others, path)
			l.hostsFile(path)
		}
	}
	l.config.Others = append(l.config.Others, l.config.ResolvFile...)
}

func (l *loader) hostsFile(path string) {
	file, _, err := atomicfile.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		l.fail(fmt.Errorf("reading hosts: %w", err))
		return
	}
	defer file.Close()
	const most = 64 << 20 // bytes
	lines := bufio.NewScanner(io.LimitReader(file, most))
	lines.Buffer(nil, most+1) // a line of a blocklist may be long
	for line := 1; lines.Scan() && len(l.config.Hosts) < maxHosts; line++ {
		if host, ok := l.hostsLine(lines.Bytes()); ok {
			host.Place = Place{path, line}
			l.config.Hosts = append(l.config.Hosts, host)
		}
	}
	if err := lines.Err(); err != nil {
		l.fail(fmt.Errorf("reading hosts: %w", err))
	}
}

// hostsLine parses "IP name name # comment" (hosts(5)). With expand-hosts the domain is appended to
// names without dots.
func (l *loader) hostsLine(line []byte) (Host, bool) {
	line, _, _ = bytes.Cut(line, []byte("#"))
	words := strings.Fields(string(line))
	if len(words) < 2 {
		return Host{}, false
	}
	addr, err := netip.ParseAddr(words[0])
	if err != nil || addr.Zone() != "" {
		return Host{}, false
	}
	host := Host{Addrs: []netip.Addr{addr.Unmap()}, TTL: Unset}
	for _, word := range words[1:] {
		name, err := dnsname.Parse(word)
		if err != nil || name.IsRoot() {
			continue
		}
		if l.config.Has("expand-hosts") && name.Labels() == 1 && !l.config.Domain.IsZero() {
			if long, err := dnsname.Parse(name.String() + l.config.Domain.String()); err == nil {
				host.Names = append(host.Names, long)
			}
		}
		host.Names = append(host.Names, name)
	}
	return host, len(host.Names) > 0
}

// AddrsIn returns the addresses for a name in a hosts file, in order. A missing file has none and
// is not an error.
func AddrsIn(path string, name dnsname.Name) (addrs []netip.Addr, err error) {
	var l loader
	l.hostsFile(path)
	for _, host := range l.config.Hosts {
		if slices.Contains(host.Names, name) {
			addrs = append(addrs, host.Addrs...)
		}
	}
	return addrs, errors.Join(l.errs...)
}
