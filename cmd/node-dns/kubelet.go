package main

import (
	"fmt"
	"path/filepath"

	"github.com/node-dns/node-dns/internal/control"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/procfs"
	"github.com/node-dns/node-dns/internal/searchlist"
)

// kubeletFlags are what the kubelet that runs below root was told of pods' resolv.conf on its command line; nil: none is to be seen, or
// it was told nothing.
func kubeletFlags(root string) *control.KubeletFlags {
	p, ok := procfs.Host(root, "kubelet")
	flags := searchlist.FlagsOf(p)
	if !ok || flags.IsEmpty() {
		return nil
	}
	out := &control.KubeletFlags{PID: p.PID, DNS: flags.DNS, Domain: flags.Domain}
	if path := flags.ResolvConf; path != nil {
		out.ResolvConf = readFlagFile(root, *path)
	}
	return out
}

func readFlagFile(root, path string) *control.FlagFile {
	file := &control.FlagFile{Path: path}
	if path == "" {
		return file
	}
	read := hostdns.ReadFile(root, filepath.Join("/", root, path))
	switch {
	case read.Err != nil:
		file.Unread = read.Err.Error()
	case !read.Exists:
		file.Missing = true
	case len(read.Data) > control.MaxFlagFile:
		file.Unread = fmt.Sprintf("longer than %d bytes", control.MaxFlagFile)
	default:
		file.Text = string(read.Data)
	}
	return file
}
