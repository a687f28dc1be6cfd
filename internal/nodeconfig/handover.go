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

	"github.com/node-dns/node-dns/internal/kube/kubeconfig"
)

// A Handover is the kubeconfig by which the daemon asks the Kubernetes API, made by the privileged half where the daemon may
// not read the original, or a file that it names: flattened, and with the credentials of its current context alone.
type Handover struct {
	Sources []HandoverSource // the kubeconfig first, and the files that it names
	Refused string           // why there is none, "" when there is
	Text    []byte           // the kubeconfig, when it is not refused
}

// HandoverSource is a file that a Handover was made of.
type HandoverSource struct {
	Path  string `json:"path"` // as the host sees it
	Stamp Stamp  `json:"stamp,omitzero"`
}

// Comments of a Handover's file.
const (
	handoverTitle   = "# Made by origin-dns-dispatcher for the user node-dns, who may not read these. Changes are lost.\n"
	handoverSource  = "# source "
	handoverRefused = "# refused "
)

// KubeconfigFile is the file that says how the API is asked: kubeconfig of node-dns.yaml, else masterKubeConfig, else the
// usual one; "": it is not asked. usual is "" where that does not exist.
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

// KubeconfigFiles are the kubeconfig at path, and the files that it names, made absolute; those that cannot be found out are
// left out.
func KubeconfigFiles(path string) []string {
	data, _, err := readFile(path)
	if err != nil {
		return []string{path}
	}
	return append([]string{path}, kubeconfig.Files(path, data)...)
}

// ReadHandover makes the Handover of the kubeconfig at path, with the rights of who calls. What must never be handed over is
// refused, which is no error: the Handover says why. An error is what may be otherwise the next time.
func ReadHandover(paths Paths, path string) (Handover, error) {
	var h Handover
	read := func(path string) ([]byte, error) {
		// First of all, so that a file that is replaced meanwhile has another stamp than the one that is noted.
		h.Sources = append(h.Sources, HandoverSource{hostPath(paths.Root, path), stampAt(path)})
		return readTrusted(paths, path)
	}
	data, err := read(path)
	if err == nil {
		h.Text, err = flatten(path, data, read)
	}
	if errors.Is(err, kubeconfig.ErrRefused) {
		h.Refused, h.Text = err.Error(), nil
		return h, nil
	}
	if err != nil {
		return Handover{}, fmt.Errorf("reading %s for the daemon: %w", path, err)
	}
	return h, nil
}

// RootsKubeconfig is the kubeconfig at path as root may use it: what ReadHandover would hand over. A kubeconfig that others can
// change could name any file for root to read, any server to send it to, and any program to run. Nil for other users, who use
// the file itself. An error that matches kubeconfig.ErrRefused says why root may not.
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

// flatten is the text of kubeconfig.Flatten.
func flatten(path string, data []byte, read func(path string) ([]byte, error)) ([]byte, error) {
	c, err := kubeconfig.Flatten(path, data, read)
	if err != nil {
		return nil, err
	}
	return c.Text()
}

// readTrusted reads the file at path if it is trusted.
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

// stampAt is the zero Stamp for what cannot be seen.
func stampAt(path string) Stamp {
	info, err := os.Stat(path)
	if err != nil {
		return Stamp{}
	}
	return stampOf(info)
}

// Bytes is the file of the Handover: comments, and the kubeconfig.
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

// ParseHandover reads what Bytes wrote.
func ParseHandover(data []byte) (Handover, error) {
	var h Handover
	if len(data) > 8*maxFile || !bytes.HasPrefix(data, []byte(handoverTitle)) {
		return h, errors.New("it is not what origin-dns-dispatcher writes")
	}
	rest := data[len(handoverTitle):]
	for {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		if text, ok := bytes.CutPrefix(line, []byte(handoverRefused)); ok {
			var err error
			if h.Refused, err = strconv.Unquote(string(text)); err != nil || h.Refused == "" {
				return Handover{}, errors.New("it does not say why it is refused")
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
		return Handover{}, errors.New("it is cut off")
	}
	return h, nil
}

// Kubeconfig is what the daemon asks the API with.
type Kubeconfig struct {
	Original string // what the configuration names, or the usual one; "": the API is not asked
	Use      string // Original, or the file of its Handover, whether there is one (yet, still) or not
	Note     string // that it is the latter; "" when it is not
	Problem  string // why it cannot be
	Wanted   string // why the privileged half must look at Original again; "": it need not, or that cannot be seen
}

// FindKubeconfig says what is used of original, with the rights of who calls: where that, or a file that it names, may not
// be read, its Handover. What is wrong with original otherwise, or with the Handover's credentials, is for who uses them.
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
		h, err = ParseHandover(data)
	}
	switch {
	case err != nil:
		k.Wanted = fmt.Sprintf("%s may not be read here, and origin-dns-dispatcher has not handed it over: %v", closed, err)
		k.Problem = k.Wanted
	case h.Sources[0].Path != hostPath(paths.Root, original):
		k.Wanted = fmt.Sprintf("%s may not be read here, and origin-dns-dispatcher has handed over %s", closed, h.Sources[0].Path)
		k.Problem = k.Wanted
	case h.Refused != "":
		k.Wanted = h.changed(paths)
		k.Problem = fmt.Sprintf("%s may not be read here, and origin-dns-dispatcher does not hand it over: %s", closed, h.Refused)
	default:
		k.Wanted = h.changed(paths)
		k.Note = fmt.Sprintf("%s may not be read here: the API is asked with what origin-dns-dispatcher handed over (%s)", closed, hostPath(paths.Root, paths.Handover))
	}
	return k
}

// isClosed reports whether the file may not be read here, as far as this can be seen: one that does not exist is not.
func isClosed(path string) bool {
	_, _, err := readFile(path)
	return errors.Is(err, fs.ErrPermission)
}

// changed says which source has changed since; "": none, or none that can be seen.
func (h Handover) changed(paths Paths) string {
	for _, source := range h.Sources {
		path := filepath.Join(rootOf(paths), source.Path)
		if stamp := stampAt(path); stamp != (Stamp{}) && stamp != source.Stamp {
			return path + " has changed since origin-dns-dispatcher read it"
		}
	}
	return ""
}
