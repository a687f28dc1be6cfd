package hostdns

import (
	"errors"
	"fmt"
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

// maxConfList bounds the entries of DNS= and of Domains=. Real hosts have a few.
const maxConfList = 64

// ResolvedConf is what an admin or a distribution has set, without our own drop-in. The zero
// ResolvedConf is systemd-resolved's default.
type ResolvedConf struct {
	Servers []nameserver.Server // DNS=: queried in addition to the links' servers
	Domains []string            // Domains= as written: "corp.example", "~."
	TLS     string              // the file that sets DNSOverTLS=yes; "" if none does and queries use plain text
	Over    string              // why a drop-in of ours would have no effect; "" if it would
}

// resolvedDirs are the directories of the main file and, in a subdirectory of its name plus ".d",
// of the drop-ins, highest priority first (resolved.conf(5); systemd before 255 reads the main file
// only from /etc).
var resolvedDirs = []string{"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd"}

const resolvedMain = "resolved.conf"

// readResolvedConf reads the files below root ("" is "/") in systemd-resolved's order, but skips
// ours, a path of the host. A file that cannot be read is an error, because the admin's settings in
// it are unknown.
func readResolvedConf(root, ours string) (ResolvedConf, error) {
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
			c.Over = file + " overrides it"
		}
		keys, err := c.readFile(root, file)
		if err != nil {
			return ResolvedConf{}, err
		}
		for _, key := range keys {
			if path.Base(file) > path.Base(ours) && (key == "DNS" || key == "Domains") {
				c.Over = file + " is read later and sets " + key + "="
			}
		}
	}
	return c, nil
}

// findDropIns returns the drop-ins as paths of the host, sorted by name, one for each name.
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

// readFile applies the settings of one file and returns its keys with duplicates, or nil if the
// file does not exist. A link to /dev/null, which masks a file, is an empty file.
func (c *ResolvedConf) readFile(root, file string) (keys []string, err error) {
	at := filepath.Join("/", root, file)
	if target, err := os.Readlink(at); err == nil && target == "/dev/null" {
		return []string{}, nil
	}
	data, _, err := atomicfile.Read(at, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
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

// collect adds the words of a value to those of earlier files. An empty value clears the list.
// Invalid words are skipped, as in systemd-resolved.
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

// parseResolvedServer parses ADDRESS, ADDRESS:PORT and [ADDRESS]:PORT, with optional %INTERFACE and
// #NAME after it. The name is for TLS.
func parseResolvedServer(word string) (nameserver.Server, bool) {
	address, _, _ := strings.Cut(word, "#")
	if host, zone, ok := strings.Cut(address, "]:"); ok { // systemd puts the interface after the port
		port, zone, _ := strings.Cut(zone, "%")
		if zone != "" {
			host += "%" + zone
		}
		address = host + "]:" + port
	}
	server, err := nameserver.Parse(address)
	return server, err == nil && server.Plain()
}

// resolvedSettings yields the keys of [Resolve] and their values, in order. A line that ends in a
// backslash continues in the next line that is not a comment (systemd.syntax(7)).
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
