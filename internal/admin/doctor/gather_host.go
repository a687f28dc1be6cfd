package doctor

import (
	"context"
	"debug/buildinfo"
	"io/fs"
	"os"
	"os/user"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// host asks the kernel for what is not of the network.
func (g *gathering) host(context.Context) {
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		g.s.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	if !g.Live() {
		return
	}
	var timex unix.Timex
	if _, err := unix.Adjtimex(&timex); err == nil { // modes 0: it only asks
		g.s.Clock.Known, g.s.Clock.Unsynced = true, timex.Status&unix.STA_UNSYNC != 0
	}
}

// builds says which programs are here.
func (g *gathering) builds(context.Context) {
	g.s.Program = Build{Version: g.Version}
	if info, ok := debug.ReadBuildInfo(); ok {
		g.s.Program.read(info)
	}
	if path, err := os.Executable(); err == nil {
		g.s.Program.Path = path
		if info, err := os.Stat(path); err == nil {
			g.s.Clock.BuiltAt = info.ModTime()
		}
	}
	g.s.Hook = Build{Path: hookProgram}
	info, err := buildinfo.ReadFile(g.at(hookProgram))
	if err != nil {
		g.s.Hook.Err = err
		return
	}
	g.s.Hook.read(info)
}

// read takes over what the go command notes in a program.
func (b *Build) read(info *debug.BuildInfo) {
	b.GoVersion = info.GoVersion
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
}

// resolv looks at what /etc/resolv.conf leads to.
func (g *gathering) resolv() Resolv {
	path := g.at(resolvConf)
	info, err := os.Stat(path)
	if err != nil {
		return Resolv{}
	}
	r := Resolv{Kind: "regular", Mode: modeOf(info), UID: uidOf(info)}
	if !info.Mode().IsRegular() {
		r.Kind = info.Mode().Type().String()
	}
	if label, err := atomicfile.Label(path); err == nil {
		r.Label = label
	}
	var stat unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &stat) == nil {
		r.Immutable = stat.Attributes&unix.STATX_ATTR_IMMUTABLE != 0
	}
	r.ReadOnly = isReadOnly(path)
	return r
}

func isReadOnly(path string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(path, &stat) == nil && stat.Flags&unix.ST_RDONLY != 0
}

func uidOf(info fs.FileInfo) uint32 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Uid
	}
	return 0
}

// storage looks at the directories that the two halves write. Below another root nobody in particular owns them.
func (g *gathering) storage() []Storage {
	all := []Storage{{Path: "/var/lib/node-dns", Want: "root"}, {Path: "/var/cache/node-dns", Want: "node-dns"}, {Path: "/run/node-dns", Want: "node-dns"}, {Path: "/etc"}}
	for i := range all {
		if !g.Live() || !hasSystemd() { // whose a daemon without its unit is, is not known
			all[i].Want = ""
		}
		all[i].look(g.at(all[i].Path))
		if all[i].Err != nil {
			g.unseen("%v", all[i].Err)
		}
	}
	return all
}

func (d *Storage) look(path string) {
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return
	}
	if err != nil {
		d.Err = err
		return
	}
	d.Exists, d.Mode, d.Owner = true, modeOf(info), strconv.Itoa(int(uidOf(info)))
	if owner, err := user.LookupId(d.Owner); err == nil {
		d.Owner = owner.Username
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		d.Err = err
		return
	}
	d.ReadOnly = stat.Flags&unix.ST_RDONLY != 0
	d.Free, d.Inodes, d.NoInodes = stat.Bavail*uint64(stat.Bsize), stat.Ffree, stat.Files == 0
	if strings.HasPrefix(d.Path, "/run") && d.Free > 0 {
		d.Free = max(d.Free, littleRoom) // a file system in memory: what is there are files of some octets
	}
}
