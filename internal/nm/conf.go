package nm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// The bounds of what is read of NetworkManager's configuration: real hosts have a dozen files of a few lines.
const (
	maxConfFile  = 1 << 20
	maxConfFiles = 256
)

// A Conf is what NetworkManager's configuration files say about resolv.conf. The zero Conf leaves it to NetworkManager.
type Conf struct {
	DNS       Setting // dns= of [main]
	RcManager Setting // rc-manager= of [main]
	Shadow    string  // the file that has our own file's name, and stands for it; "": there is none
}

// A Setting is a key's value and the file that set it; "" where none does. An empty value is NetworkManager's default.
type Setting struct {
	Value, File string
	Line        int // from 1; 0: none does
}

// Decision says, for people, what an admin (or a distribution) has decided about resolv.conf; "": nothing. Any dns= but none
// says whom the file names, and nothing about who writes it.
func (c Conf) Decision() string {
	switch {
	case c.RcManager.File != "": // an empty one, too, in /etc wins over a snippet in /run
		return "rc-manager=" + c.RcManager.Value + " in " + c.RcManager.File
	case c.DNS.Value == "none":
		return "dns=" + c.DNS.Value + " in " + c.DNS.File
	case c.Shadow != "":
		return c.Shadow
	}
	return ""
}

// confDirs are the directories of snippets, the first read first; a file hides one of the same name in a directory before
// (NetworkManager.conf(5)). NetworkManager.conf itself is read before the last of them.
var confDirs = []string{"/usr/lib/NetworkManager/conf.d", "/run/NetworkManager/conf.d", "/etc/NetworkManager/conf.d"}

const mainConf = "/etc/NetworkManager/NetworkManager.conf"

// ReadConf reads the files below root ("" is "/") in NetworkManager's order, as if the snippet ours, a path of the host,
// did not exist. A file or a directory that cannot be read is an error: what an admin said there is not known then. A
// snippet whose [.config] enable= is a list of conditions (nm-version:, env:) counts, as most that are installed do.
func ReadConf(root, ours string) (Conf, error) {
	snippets, err := findConf(root)
	if err != nil {
		return Conf{}, fmt.Errorf("looking for NetworkManager's configuration: %w", err)
	}
	var c Conf
	for _, path := range snippets {
		if path == ours {
			continue
		}
		if path == filepath.Join(confDirs[len(confDirs)-1], filepath.Base(ours)) {
			c.Shadow = path
		}
		data, err := readConfFile(filepath.Join("/", root, path))
		if err != nil {
			return Conf{}, fmt.Errorf("reading NetworkManager's configuration: %w", err)
		}
		c.read(path, data)
	}
	return c, nil
}

// findConf lists the files that count, in the order in which they are read, as paths of the host.
func findConf(root string) ([]string, error) {
	var files []string
	for i, dir := range confDirs {
		entries, err := os.ReadDir(filepath.Join("/", root, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if i == len(confDirs)-1 {
			files = append(files, mainConf)
		}
		for _, entry := range entries { // sorted by name, byte by byte, as strcmp(3) does
			name := entry.Name()
			files = slices.DeleteFunc(files, func(path string) bool { return path != mainConf && filepath.Base(path) == name })
			if strings.HasSuffix(name, ".conf") && len(files) < maxConfFiles {
				files = append(files, filepath.Join(dir, name))
			}
		}
	}
	return files, nil
}

// readConfFile reads a regular file; one that does not exist (any more) is empty.
func readConfFile(path string) ([]byte, error) {
	file, _, err := atomicfile.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxConfFile))
}

// read takes the settings of one file over. A key that stands twice counts as it stands last, and "dns+=" is another key:
// neither is a list (seen with `NetworkManager --print-config` of 1.42.4).
func (c *Conf) read(path string, data []byte) {
	values := keyFile(data)
	if path != mainConf && isNo(values[keyOf{".config", "enable"}].value) {
		return
	}
	if dns, ok := values[keyOf{"main", "dns"}]; ok {
		c.DNS = Setting{printable(dns.value, maxName), path, dns.line}
	}
	if manager, ok := values[keyOf{"main", "rc-manager"}]; ok {
		c.RcManager = Setting{printable(manager.value, maxName), path, manager.line}
	}
}

// isNo reports whether an enable= switches its file off (NetworkManager's words for a boolean).
func isNo(value string) bool {
	return slices.Contains([]string{"false", "no", "off", "0"}, strings.ToLower(value))
}

// keyOf is a key and its group.
type keyOf struct{ group, key string }

// valueAt is a key's value, and its line from 1.
type valueAt struct {
	value string
	line  int
}

// keyFile reads a GKeyFile: the last value of each key. What is no line of one is passed over; NetworkManager would take
// over nothing of all its files then.
func keyFile(data []byte) map[keyOf]valueAt {
	values := map[keyOf]valueAt{}
	group, number := "", 0
	for line := range bytes.Lines(data) {
		number++
		text := strings.TrimSpace(string(line))
		if name, ok := strings.CutPrefix(text, "["); ok {
			group, _, _ = strings.Cut(name, "]")
			continue
		}
		if key, value, ok := strings.Cut(text, "="); ok && !strings.HasPrefix(text, "#") {
			values[keyOf{group, strings.TrimSpace(key)}] = valueAt{strings.TrimSpace(value), number}
		}
	}
	return values
}
