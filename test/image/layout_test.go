package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// image is the image for one platform.
type image struct {
	layer      []byte // its only layer, an uncompressed tar
	compressed int    // bytes of that layer in the layout
}

// descriptor is OCI's reference to a blob.
type descriptor struct {
	MediaType, Digest string
	Size              int
	Platform          struct{ OS, Architecture string }
	Annotations       map[string]string
}

// manifest is an OCI image manifest or an index, which have different fields.
type manifest struct {
	SchemaVersion int
	MediaType     string
	Manifests     []descriptor
	Config        descriptor
	Layers        []descriptor
	Annotations   map[string]string
}

type config struct {
	OS, Architecture, Created string
	RootFS                    struct {
		Type    string
		DiffIDs []string `json:"diff_ids"`
	}
	Config struct {
		User            string
		Entrypoint, Cmd []string
		Labels          map[string]string
	}
}

const (
	media       = "application/vnd.oci.image."
	mediaIndex  = media + "index.v1+json"
	mediaImage  = media + "manifest.v1+json"
	mediaConfig = media + "config.v1+json"
	mediaLayer  = media + "layer.v1.tar+gzip"
)

// labels are the labels of each image and of the index, except the license.
var labels = map[string]string{
	"org.opencontainers.image.title":       "node-dns",
	"org.opencontainers.image.description": "One DNS agent for a Kubernetes or OpenShift node",
	"org.opencontainers.image.source":      "https://github.com/node-dns/node-dns",
	"org.opencontainers.image.version":     version,
	"org.opencontainers.image.revision":    revision,
	"org.opencontainers.image.created":     "2027-01-15T08:00:00Z",
}

// layout reads blobs of an OCI layout, each of them once.
type layout struct {
	t     *testing.T
	files map[string][]byte
}

// blob returns the blob that a descriptor refers to.
func (l layout) blob(d descriptor, mediaType string) []byte {
	l.t.Helper()
	name := "blobs/" + strings.Replace(d.Digest, ":", "/", 1)
	data, ok := l.files[name]
	if !ok {
		l.t.Fatalf("the layout has no %s", name)
	}
	if d.MediaType != mediaType || d.Size != len(data) || d.Digest != digest(data) {
		l.t.Errorf("%+v refers to %d bytes of %s, whose media type is %s", d, len(data), digest(data), mediaType)
	}
	delete(l.files, name)
	return data
}

// readLayout checks all documents and references of a layout, and returns its images by
// architecture. It has exactly those of want.
func readLayout(t *testing.T, path string, want []string) map[string]image {
	t.Helper()
	l := layout{t, files(t, read(t, path))}
	if got, want := string(l.files["oci-layout"]), "1.0.0"; decode[map[string]string](t, []byte(got))["imageLayoutVersion"] != want {
		t.Errorf("got oci-layout %q, want the version %s", got, want)
	}
	top := decode[manifest](t, l.files["index.json"])
	if top.SchemaVersion != 2 || len(top.Manifests) != 1 {
		t.Fatalf("index.json has %+v, want one index", top)
	}
	if got, want := top.Manifests[0].Annotations["org.opencontainers.image.ref.name"], strings.ReplaceAll(version, "~", "-"); got != want {
		t.Errorf("got the tag %q, want %q", got, want)
	}
	index := decode[manifest](t, l.blob(top.Manifests[0], mediaIndex))
	checkLabels(t, index.Annotations)
	images := map[string]image{}
	for _, d := range index.Manifests {
		if d.Platform.OS != "linux" {
			t.Errorf("got the platform %+v", d.Platform)
		}
		images[d.Platform.Architecture] = l.image(d)
	}
	if got := slices.Sorted(maps.Keys(images)); !slices.Equal(got, slices.Sorted(slices.Values(want))) || len(index.Manifests) != len(want) {
		t.Errorf("got %d images for %q, want %q", len(index.Manifests), got, want)
	}
	delete(l.files, "oci-layout")
	delete(l.files, "index.json")
	for name := range l.files {
		t.Errorf("nothing refers to %s", name)
	}
	return images
}

// image checks one image of the index.
func (l layout) image(d descriptor) image {
	l.t.Helper()
	m := decode[manifest](l.t, l.blob(d, mediaImage))
	c := decode[config](l.t, l.blob(m.Config, mediaConfig))
	if m.SchemaVersion != 2 || len(m.Layers) != 1 {
		l.t.Fatalf("got %+v, want one layer", m)
	}
	packed := l.blob(m.Layers[0], mediaLayer)
	unzip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		l.t.Fatal(err)
	}
	if !unzip.ModTime.IsZero() || unzip.Name != "" {
		l.t.Errorf("the layer has the time %v and the name %q", unzip.ModTime, unzip.Name)
	}
	layer, err := io.ReadAll(unzip)
	if err != nil {
		l.t.Fatal(err)
	}
	if c.OS != "linux" || c.Architecture != d.Platform.Architecture || c.Created != labels["org.opencontainers.image.created"] ||
		c.RootFS.Type != "layers" || !slices.Equal(c.RootFS.DiffIDs, []string{digest(layer)}) {
		l.t.Errorf("got %+v for a layer with the digest %s", c, digest(layer))
	}
	if c.Config.User != "65532:65532" || !slices.Equal(c.Config.Entrypoint, []string{"/usr/sbin/node-dns"}) || !slices.Equal(c.Config.Cmd, []string{"serve"}) {
		l.t.Errorf("it runs %+v", c.Config)
	}
	checkLabels(l.t, c.Config.Labels)
	return image{layer: layer, compressed: len(packed)}
}

func checkLabels(t *testing.T, got map[string]string) {
	t.Helper()
	got = maps.Clone(got)
	if license := got["org.opencontainers.image.licenses"]; license == "" {
		t.Error("got no license")
	}
	delete(got, "org.opencontainers.image.licenses")
	if diff := cmp.Diff(labels, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func decode[T any](t *testing.T, data []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v: %q", err, data)
	}
	return v
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// each calls f for each entry of a tar.
func each(t *testing.T, archive []byte, f func(h *tar.Header, data []byte)) {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		f(h, data)
	}
}

// files returns the regular files of a tar.
func files(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	each(t, archive, func(h *tar.Header, data []byte) {
		if h.Typeflag == tar.TypeReg {
			all[h.Name] = data
		}
	})
	return all
}

// listing has a line for each entry: mode, IDs of owner and group, name, and the file's capability
// in hexadecimal.
func listing(t *testing.T, layer []byte) string {
	t.Helper()
	var all strings.Builder
	each(t, layer, func(h *tar.Header, _ []byte) {
		fmt.Fprintf(&all, "%v %d %d %s", h.FileInfo().Mode(), h.Uid, h.Gid, h.Name)
		for key, value := range h.PAXRecords {
			fmt.Fprintf(&all, " %s=%x", key, value)
		}
		all.WriteString("\n")
		if h.ModTime.Unix() != 1800000000 || h.Uname != "" || h.Gname != "" {
			t.Errorf("%s has the time %v and the owner %s:%s", h.Name, h.ModTime, h.Uname, h.Gname)
		}
	})
	return all.String()
}

// save writes the files of a layer, without owners and capabilities, which only root can set.
func save(t *testing.T, layer []byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files(t, layer) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
