package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// release is one version of the image.
type release struct {
	version, revision, license string
	time                       time.Time
	platforms                  []platform
}

// platform is the image for one architecture.
type platform struct {
	arch  string // GOARCH, which OCI uses too
	layer []byte // an uncompressed tar
}

// labels describe the image. A tree without git has no revision.
func (r release) labels() map[string]string {
	const prefix = "org.opencontainers.image."
	labels := map[string]string{
		prefix + "title":       "node-dns",
		prefix + "description": "One DNS agent for a Kubernetes or OpenShift node",
		prefix + "source":      "https://github.com/node-dns/node-dns",
		prefix + "version":     r.version,
		prefix + "licenses":    r.license,
		prefix + "created":     r.time.Format(time.RFC3339),
	}
	if r.revision != "" {
		labels[prefix+"revision"] = r.revision
	}
	return labels
}

// image returns the image for one platform.
func (r release) image(p platform) (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(p.layer)), nil },
		tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: r.time}
	image, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "make image"}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", p.arch, created
	config.Config = v1.Config{
		// Numbers, because Kubernetes checks runAsNonRoot without reading /etc/passwd.
		User:       fmt.Sprintf("%d:%d", nodeDNS, nodeDNS),
		Env:        []string{"PATH=/usr/sbin"},
		Entrypoint: []string{"/usr/sbin/node-dns"},
		Cmd:        []string{"serve"},
		WorkingDir: "/",
		Labels:     r.labels(),
	}
	return mutate.ConfigFile(image, config)
}

// layout writes the OCI layout into an empty directory. index.json has one entry, the index of the
// platforms, so that tools need no name to find it.
func (r release) layout(dir string) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range r.platforms {
		image, err := r.image(p)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: p.arch}},
		})
	}
	index = mutate.Annotations(index, r.labels()).(v1.ImageIndex)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// A tag cannot contain "~".
	tag := strings.ReplaceAll(r.version, "~", "-")
	return path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag,
		"io.containerd.image.name":          "localhost/node-dns:" + tag,
	}))
}

// writeLayout writes the layout as tar, with sorted names.
func writeLayout(w io.Writer, r release) error {
	dir, err := os.MkdirTemp("", "node-dns-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := r.layout(dir); err != nil {
		return fmt.Errorf("writing the OCI layout: %w", err)
	}
	files, err := readTree(dir)
	if err != nil {
		return err
	}
	for i := range files {
		files[i].mode = 0o644 // layout.Write makes some executable
	}
	data, err := archive(files, r.time)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}
