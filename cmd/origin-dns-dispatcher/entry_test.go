package main_test

import (
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func readEntry(t *testing.T, path string) entry {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	e := entry{
		Mode: info.Mode(), UID: st.Uid, GID: st.Gid, Inode: st.Ino,
		Modified: st.Mtim.Nano(), StatusModified: st.Ctim.Nano(),
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		e.Content, err = os.Readlink(path)
	case info.Mode().IsRegular() && interesting(path):
		var data []byte
		data, err = os.ReadFile(path)
		e.Content = string(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// changes returns the paths that differ between two trees, with what happened to them.
func changes(old, new tree) map[string]string {
	all := map[string]string{}
	for path, e := range new {
		if was, ok := old[path]; !ok {
			all[path] = "created"
		} else if was != e {
			all[path] = "changed"
		}
	}
	for path := range old {
		if _, ok := new[path]; !ok {
			all[path] = "removed"
		}
	}
	return all
}
