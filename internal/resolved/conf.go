// Package resolved reads systemd-resolved's configuration files, and writes ours.
//
// It stands apart from nm, which says what NetworkManager knows: where both run, that one tells systemd-resolved of each
// link's nameservers, and the files here name those beside any link.
package resolved

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// The bounds of what is read: real hosts have a file or two of some lines.
const (
	maxFile = 1 << 20 // octets
	maxList = 64      // entries of DNS=, and of Domains=
)

// Conf is what an admin or a distribution has set, but for one file of ours. The zero Conf is systemd-resolved's default.
type Conf struct {
	Servers []nameserver.Server // DNS=: asked beside those of the links
	Domains []string            // Domains= as it stands there: "corp.example", "~."
	TLS     string              // the file that sets DNSOverTLS=yes; "": none, and servers are asked in plain text
	Over    string              // why a file of ours would not do what it says; "": it would
}

// dirs are where the main file is looked for, and in a directory of its name and ".d" the drop-ins, the first preferred
// (resolved.conf(5); systemd before 255 takes the main file from /etc alone).
var dirs = []string{"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd"}

const mainFile = "resolved.conf"

// ReadConf reads the files below root ("" is "/") in systemd-resolved's order, as if ours, a path of the host, did not
// exist. One that cannot be read is an error: what an admin said there is not known then.
func ReadConf(root, ours string) (Conf, error) {
	dropIns, err := findDropIns(root)
	if err != nil {
		return Conf{}, fmt.Errorf("looking for systemd-resolved's configuration: %w", err)
	}
	var c Conf
	for _, dir := range dirs {
		found, err := c.readFile(root, path.Join(dir, mainFile))
		if err != nil {
			return Conf{}, err
		}
		if found != nil {
			break
		}
	}
	for _, file := range dropIns {
		if file == ours {
			continue
		}
		if path.Base(file) == path.Base(ours) {
			c.Over = file + " stands in its place"
		}
		keys, err := c.readFile(root, file)
		if err != nil {
			return Conf{}, err
		}
		for _, key := range keys {
			if path.Base(file) > path.Base(ours) && (key == "DNS" || key == "Domains") {
				c.Over = file + ", which is read after it, has " + key + "="
			}
		}
	}
	return c, nil
}

// findDropIns lists the drop-ins as paths of the host: sorted by their names, and one of each name.
func findDropIns(root string) ([]string, error) {
	files := map[string]string{}
	for _, dir := range slices.Backward(dirs) {
		dir = path.Join(dir, mainFile+".d")
		entries, err := os.ReadDir(filepath.Join("/", root, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, entry := range entries {
			if strings.HasSuffix(entry.Name(), ".conf") {
				files[entry.Name()] = path.Join(dir, entry.Name())
			}
		}
	}
	var sorted []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sorted = append(sorted, files[name])
	}
	return sorted, nil
}

// readFile takes the settings of one file over, and returns its keys, as often as they stand there: nil where it does not
// exist. A link to /dev/null, which masks a file, is an empty one.
func (c *Conf) readFile(root, file string) (keys []string, err error) {
	at := filepath.Join("/", root, file)
	if target, err := os.Readlink(at); err == nil && target == "/dev/null" {
		return []string{}, nil
	}
	f, _, err := atomicfile.Open(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading systemd-resolved's configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, fmt.Errorf("reading systemd-resolved's configuration: %w", err)
	}
	return c.read(file, string(data)), nil
}

func (c *Conf) read(file, text string) (keys []string) {
	keys = []string{}
	for key, value := range settings(text) {
		keys = append(keys, key)
		switch key {
		case "DNS":
			c.Servers = list(c.Servers, value, parseServer)
		case "Domains":
			c.Domains = list(c.Domains, value, func(word string) (string, bool) { return word, true })
		case "DNSOverTLS":
			c.TLS = ""
			if slices.Contains([]string{"1", "yes", "y", "true", "t", "on"}, strings.ToLower(value)) {
				c.TLS = file
			}
		}
	}
	return keys
}

// list adds the words of a value to those of the files before; an empty one forgets them all. What cannot be read is left
// out, as systemd-resolved does.
func list[T comparable](have []T, value string, parse func(string) (T, bool)) []T {
	if value == "" {
		return nil
	}
	for word := range strings.FieldsSeq(value) {
		if item, ok := parse(word); ok && len(have) < maxList && !slices.Contains(have, item) {
			have = append(have, item)
		}
	}
	return have
}

// parseServer reads ADDRESS, ADDRESS:PORT and [ADDRESS]:PORT, with %INTERFACE and #NAME behind it. The name is for TLS.
func parseServer(word string) (nameserver.Server, bool) {
	address, _, _ := strings.Cut(word, "#")
	if host, zone, ok := strings.Cut(address, "]:"); ok { // systemd has the interface behind the port
		port, zone, _ := strings.Cut(zone, "%")
		if zone != "" {
			host += "%" + zone
		}
		address = host + "]:" + port
	}
	server, err := nameserver.Parse(address)
	return server, err == nil && server.Plain()
}
