package nm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// Limits for reading NetworkManager's configuration. Real hosts have about a dozen files of a few
// lines.
const (
	maxConfFile  = 1 << 20
	maxConfFiles = 256
)

// A Conf is the part of NetworkManager's configuration files about resolv.conf. The zero Conf
// leaves resolv.conf to NetworkManager.
type Conf struct {
	DNS       Setting // dns= of [main]
	RcManager Setting // rc-manager= of [main]
	Shadow    string  // a file with our own file's name that overrides it; "" if there is none
}

// A Setting is a key's value and the file that set it, or "" if none does. An empty value means
// NetworkManager's default.
type Setting struct {
	Value, File string
	Line        int // from 1; 0 if no file sets it
}

// Decision describes the decision of an admin or a distribution about resolv.conf, or returns "". A
// dns= other than none decides what the file contains, but not who writes it.
func (c Conf) Decision() string {
	switch {
	case c.RcManager.File != "": // an empty value in /etc also overrides a snippet in /run
		return "rc-manager=" + c.RcManager.Value + " in " + c.RcManager.File
	case c.DNS.Value == "none":
		return "dns=" + c.DNS.Value + " in " + c.DNS.File
	case c.Shadow != "":
		return c.Shadow
	}
	return ""
}

// WritesResolvConf reports whether NetworkManager writes resolv.conf with these dns= and
// rc-manager= settings. With rc-manager=resolvconf it calls resolvconf(8), which writes the file.
func WritesResolvConf(dns, rcManager string) bool {
	return dns != "none" && rcManager != "unmanaged" && rcManager != "immutable"
}

// confDirs are the directories of snippets, in reading order. A file hides one of the same name in
// an earlier directory (NetworkManager.conf(5)). NetworkManager.conf itself is read before the last
// directory.
var confDirs = []string{"/usr/lib/NetworkManager/conf.d", "/run/NetworkManager/conf.d", "/etc/NetworkManager/conf.d"}

const mainConf = "/etc/NetworkManager/NetworkManager.conf"

// ReadConf reads the files below root ("" is "/") in NetworkManager's order, but skips the snippet
// ours, a path of the host. A file or directory that cannot be read is an error, because the
// admin's settings in it are unknown. A snippet whose [.config] enable= lists conditions
// (nm-version:, env:) counts, because most installed ones do apply.
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
		data, _, err := atomicfile.Read(filepath.Join("/", root, path), maxConfFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Conf{}, fmt.Errorf("reading NetworkManager's configuration: %w", err)
		}
		c.read(path, data)
	}
	return c, nil
}

// findConf returns the effective files in reading order, as paths of the host.
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
		for _, entry := range entries { // sorted by bytes, as with strcmp(3)
			name := entry.Name()
			files = slices.DeleteFunc(files, func(path string) bool { return path != mainConf && filepath.Base(path) == name })
			if strings.HasSuffix(name, ".conf") && len(files) < maxConfFiles {
				files = append(files, filepath.Join(dir, name))
			}
		}
	}
	return files, nil
}

// read applies the settings of one file. The last of two equal keys counts. "dns+=" is a different
// key, because neither setting is a list (seen with `NetworkManager --print-config` of 1.42.4).
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

// isNo reports whether an enable= value disables its file, in NetworkManager's words for a boolean.
func isNo(value string) bool {
	return slices.Contains([]string{"false", "no", "off", "0"}, strings.ToLower(value))
}

type keyOf struct{ group, key string }

type valueAt struct {
	value string
	line  int
}

// keyFile parses a GKeyFile and returns the last value of each key. It skips invalid lines.
// NetworkManager would reject all its files because of one.
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
