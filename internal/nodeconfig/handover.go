package nodeconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// A Handover is the kubeconfig for the daemon, made by the privileged half if the daemon may not
// read the original or a file that it names. It is flattened and has only the credentials of the
// current context.
type Handover struct {
	Sources []HandoverSource // the kubeconfig first, then the files that it names
	Refused string           // reason if there is none; otherwise empty
	Text    []byte           // the kubeconfig, unless refused
}

// HandoverSource is a source file of a Handover.
type HandoverSource struct {
	Path  string `json:"path"` // path on the host
	Stamp Stamp  `json:"stamp,omitzero"`
}

// Comments in a Handover's file.
const (
	handoverTitle   = "# Made by origin-dns-dispatcher for the user node-dns, who may not read these. Changes are lost.\n"
	handoverSource  = "# source "
	handoverRefused = "# refused "
)

// KubeconfigFile returns the kubeconfig for the API: kubeconfig of node-dns.yaml, else
// masterKubeConfig, else usual. It returns "" if the API is not used. usual is empty if the default
// kubeconfig does not exist.
func (c Config) KubeconfigFile(usual string) string {
	switch {
	case c.Resolver.Off || c.ClusterDomain.IsZero():
		return ""
	case c.Resolver.Kubeconfig != "":
		return c.Resolver.Kubeconfig
	case c.MasterKubeConfig != "":
		return c.MasterKubeConfig
	}
	return usual
}

// KubeconfigFiles returns path and the absolute paths of the files that the kubeconfig at path
// names, as far as they can be determined.
func KubeconfigFiles(path string) []string {
	data, _, err := readFile(path)
	if err != nil {
		return []string{path}
	}
	return append([]string{path}, filesOf(path, data)...)
}

// ReadHandover makes the Handover of the kubeconfig at path, with the caller's privileges. Content
// that must never be handed over is refused: then err is nil and Refused is set. An error may be
// temporary.
func ReadHandover(paths Paths, path string) (Handover, error) {
	var h Handover
	read := func(path string) ([]byte, error) {
		// Stamp first: if the file is replaced while it is read, the stamp differs.
		h.Sources = append(h.Sources, HandoverSource{hostPath(paths.Root, path), stampAt(path)})
		return readTrusted(paths, path)
	}
	data, err := read(path)
	if err == nil {
		h.Text, err = flatten(path, data, read)
	}
	if errors.Is(err, ErrRefused) {
		h.Refused, h.Text = err.Error(), nil
		return h, nil
	}
	if err != nil {
		return Handover{}, fmt.Errorf("reading %s for the daemon: %w", path, err)
	}
	return h, nil
}

// RootsKubeconfig returns the kubeconfig at path as root may use it, which is what ReadHandover
// would hand over. A kubeconfig that others can change could name any file for root to read, any
// server to send it to, and any program to run. It returns nil for other users, who use the file
// itself. An error that matches ErrRefused is the reason why root may not use it.
func RootsKubeconfig(paths Paths, path string) ([]byte, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	read := func(path string) ([]byte, error) { return readTrusted(paths, path) }
	data, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig as root: %w", err)
	}
	return flatten(path, data, read)
}

func flatten(path string, data []byte, read func(path string) ([]byte, error)) ([]byte, error) {
	c, err := FlattenKubeconfig(path, data, read)
	if err != nil {
		return nil, err
	}
	return c.Text()
}

func readTrusted(paths Paths, path string) ([]byte, error) {
	file, err := trusted(rootOf(paths), path)
	if err != nil {
		return nil, err
	}
	data, _, err := readFile(file)
	return data, err
}

func rootOf(paths Paths) string {
	if paths.Root == "" {
		return "/"
	}
	return paths.Root
}

// stampAt returns the zero Stamp if the file is not visible.
func stampAt(path string) Stamp {
	info, err := os.Stat(path)
	if err != nil {
		return Stamp{}
	}
	return stampOf(info)
}

// Bytes returns the file of the Handover: comments and the kubeconfig.
func (h Handover) Bytes() []byte {
	text := []byte(handoverTitle)
	for _, source := range h.Sources {
		line, err := json.Marshal(source)
		if err != nil {
			panic(err) // see Facts.Bytes
		}
		text = fmt.Appendf(text, "%s%s\n", handoverSource, line)
	}
	if h.Refused != "" {
		return fmt.Appendf(text, "%s%s\n", handoverRefused, strconv.Quote(h.Refused))
	}
	return append(text, h.Text...)
}

// parseHandover parses the output of Bytes.
func parseHandover(data []byte) (Handover, error) {
	var h Handover
	if len(data) > 8*maxFile || !bytes.HasPrefix(data, []byte(handoverTitle)) {
		return h, errors.New("not a file written by origin-dns-dispatcher")
	}
	rest := data[len(handoverTitle):]
	for {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		if text, ok := bytes.CutPrefix(line, []byte(handoverRefused)); ok {
			var err error
			if h.Refused, err = strconv.Unquote(string(text)); err != nil || h.Refused == "" {
				return Handover{}, errors.New("the reason for the refusal is missing")
			}
			return h, nil
		}
		text, ok := bytes.CutPrefix(line, []byte(handoverSource))
		if !ok {
			break
		}
		var source HandoverSource
		if err := json.Unmarshal(text, &source); err != nil {
			return Handover{}, fmt.Errorf("reading its sources: %w", err)
		}
		h.Sources, rest = append(h.Sources, source), after
	}
	if h.Text = rest; len(h.Sources) == 0 || len(rest) == 0 {
		return Handover{}, errors.New("the file is truncated")
	}
	return h, nil
}

// Kubeconfig is the kubeconfig that the daemon uses.
type Kubeconfig struct {
	Original string // the configured or default one; empty if the API is not used
	Use      string // Original, or the file of its Handover, whether it exists or not
	Note     string // says that Use is a Handover; otherwise empty
	Problem  string // why the API cannot be used
	Wanted   string // why the privileged half must look at Original again; empty if it need not, or if that is not visible
}

// FindKubeconfig determines what to use for original, with the caller's privileges: the Handover if
// original, or a file that it names, may not be read. It does not check original or the Handover's
// credentials for other errors.
func FindKubeconfig(paths Paths, original string) Kubeconfig {
	k := Kubeconfig{Original: original, Use: original}
	if original == "" {
		return k
	}
	files := KubeconfigFiles(original)
	i := slices.IndexFunc(files, isClosed)
	if i < 0 {
		return k
	}
	closed := files[i]
	k.Use = paths.Handover
	data, _, err := readFile(paths.Handover)
	var h Handover
	if err == nil {
		h, err = parseHandover(data)
	}
	switch {
	case err != nil:
		k.Wanted = fmt.Sprintf("no permission to read %s, and origin-dns-dispatcher has not copied it: %v", closed, err)
		k.Problem = k.Wanted
	case h.Sources[0].Path != hostPath(paths.Root, original):
		k.Wanted = fmt.Sprintf("no permission to read %s; origin-dns-dispatcher copied %s instead", closed, h.Sources[0].Path)
		k.Problem = k.Wanted
	case h.Refused != "":
		k.Wanted = h.changed(paths)
		k.Problem = fmt.Sprintf("no permission to read %s, and origin-dns-dispatcher does not copy it: %s", closed, h.Refused)
	default:
		k.Wanted = h.changed(paths)
		k.Note = fmt.Sprintf("no permission to read %s; using the copy that origin-dns-dispatcher made (%s)", closed, hostPath(paths.Root, paths.Handover))
	}
	return k
}

// isClosed reports whether the file exists but may not be read, as far as that is visible.
func isClosed(path string) bool {
	_, _, err := readFile(path)
	return errors.Is(err, fs.ErrPermission)
}

// changed returns a message about a source that has changed. It returns "" if none has, or if that
// is not visible.
func (h Handover) changed(paths Paths) string {
	for _, source := range h.Sources {
		path := filepath.Join(rootOf(paths), source.Path)
		if stamp := stampAt(path); stamp != (Stamp{}) && stamp != source.Stamp {
			return path + " has changed since origin-dns-dispatcher read it"
		}
	}
	return ""
}
