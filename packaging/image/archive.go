package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file or a directory of an archive.
type entry struct {
	name       string // without a leading slash; a directory ends in one
	mode       int64
	owner      int    // user and group
	capability string // value of the attribute security.capability; "" means no capability
	data       []byte
}

// xattr is the PAX record of a file's capabilities. Runtimes set them when they unpack a layer.
const xattr = "SCHILY.xattr.security.capability"

func (e entry) header(when time.Time) *tar.Header {
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner,
		Size: int64(len(e.data)), ModTime: when, Format: tar.FormatPAX,
	}
	if strings.HasSuffix(e.name, "/") {
		h.Typeflag = tar.TypeDir
	}
	if e.capability != "" {
		h.PAXRecords = map[string]string{xattr: e.capability}
	}
	return h
}

// archive returns the entries as tar, sorted by name. A parent directory comes before its files.
func archive(entries []entry, when time.Time) ([]byte, error) {
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if err := w.WriteHeader(e.header(when)); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// readTree returns the regular files below dir, with their names in the image.
func readTree(dir string) (files []entry, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		// The umask of the build host does not matter.
		mode := int64(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		files = append(files, entry{name: filepath.ToSlash(name), mode: mode, data: data})
		return err
	})
	return files, err
}
