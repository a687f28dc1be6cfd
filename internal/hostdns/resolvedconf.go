package hostdns

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// maxConfList bounds the entries of DNS=, and of Domains=: real hosts have a few.
const maxConfList = 64

// ResolvedConf is what an admin or a distribution has set, but for one file of ours. The zero ResolvedConf is systemd-resolved's default.
type ResolvedConf struct {
	Servers []nameserver.Server // DNS=: asked beside those of the links
	Domains []string            // Domains= as it stands there: "corp.example", "~."
	TLS     string              // the file that sets DNSOverTLS=yes; "": none, and servers are asked in plain text
	Over    string              // why a file of ours would not do what it says; "": it would
}

// resolvedDirs are where the main file is looked for, and in a directory of its name and ".d" the drop-ins, the first preferred
// (resolved.conf(5); systemd before 255 takes the main file from /etc alone).
var resolvedDirs = []string{"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd"}

const resolvedMain = "resolved.conf"

// ReadResolvedConf reads the files below root ("" is "/") in systemd-resolved's order, as if ours, a path of the host, did not
// exist. One that cannot be read is an error: what an admin said there is not known then.
func ReadResolvedConf(root, ours string) (ResolvedConf, error) {
	dropIns, err := findDropIns(root)
	if err != nil {
		return ResolvedConf{}, fmt.Errorf("looking for systemd-resolved's configuration: %w", err)
	}
	var c ResolvedConf
	for _, dir := range resolvedDirs {
		found, err := c.readFile(root, path.Join(dir, resolvedMain))
		if err != nil {
			return ResolvedConf{}, err
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
			return ResolvedConf{}, err
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
	for _, dir := range slices.Backward(resolvedDirs) {
		dir = path.Join(dir, resolvedMain+".d")
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
func (c *ResolvedConf) readFile(root, file string) (keys []string, err error) {
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

func (c *ResolvedConf) read(file, text string) (keys []string) {
	keys = []string{}
	for key, value := range resolvedSettings(text) {
		keys = append(keys, key)
		switch key {
		case "DNS":
			c.Servers = collect(c.Servers, value, parseResolvedServer)
		case "Domains":
			c.Domains = collect(c.Domains, value, func(word string) (string, bool) { return word, true })
		case "DNSOverTLS":
			c.TLS = ""
			if slices.Contains([]string{"1", "yes", "y", "true", "t", "on"}, strings.ToLower(value)) {
				c.TLS = file
			}
		}
	}
	return keys
}

// collect adds the words of a value to those of the files before; an empty one forgets them all. What cannot be read is left
// out, as systemd-resolved does.
func collect[T comparable](have []T, value string, parse func(string) (T, bool)) []T {
	if value == "" {
		return nil
	}
	for word := range strings.FieldsSeq(value) {
		if item, ok := parse(word); ok && len(have) < maxConfList && !slices.Contains(have, item) {
			have = append(have, item)
		}
	}
	return have
}

// parseResolvedServer reads ADDRESS, ADDRESS:PORT and [ADDRESS]:PORT, with %INTERFACE and #NAME behind it. The name is for TLS.
func parseResolvedServer(word string) (nameserver.Server, bool) {
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

// resolvedSettings are the keys of [Resolve] and their values, in order. A line that ends in a backslash goes on in the next one
// that is no comment (systemd.syntax(7)).
func resolvedSettings(text string) iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		section, begun := "", ""
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
				continue
			}
			line, begun = begun+line, ""
			if rest, ok := strings.CutSuffix(line, `\`); ok {
				begun = rest + " "
				continue
			}
			if strings.HasPrefix(line, "[") {
				section = line
				continue
			}
			key, value, ok := strings.Cut(line, "=")
			if ok && section == "[Resolve]" && !yield(strings.TrimSpace(key), strings.TrimSpace(value)) {
				return
			}
		}
	}
}
