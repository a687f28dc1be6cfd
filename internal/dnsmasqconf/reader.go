package dnsmasqconf

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A Reader reads the files again only when one of them may have changed: hosts files of 200,000 names take 0.2 s. It belongs
// to one goroutine.
type Reader struct {
	paths  Paths
	config Config
	err    error
	stamps string // of what config is; "": it is to be read again
}

// NewReader returns a Reader that has read nothing yet.
func NewReader(paths Paths) *Reader { return &Reader{paths: paths} }

// Load is Load, or what that returned last.
func (r *Reader) Load() (Config, error) {
	if r.stamps != "" && r.stampsOf(time.Now()) == r.stamps {
		return r.config, r.err
	}
	begin := time.Now()
	r.config, r.err = Load(r.paths)
	r.stamps = r.stampsOf(begin)
	return r.config, r.err
}

// tick is how long a file may have its old times though it is written: those of the kernel go by its clock's ticks of up to
// 10 ms, those of a network file system by seconds.
const tick = 2 * time.Second

// stampsOf tells the files and directories apart from all that they were and will be; "" where one has changed just now, and
// may again in the same tick.
func (r *Reader) stampsOf(now time.Time) string {
	var all strings.Builder
	usual := []string{r.paths.Conf, r.paths.Dir, r.paths.Hosts}
	for _, path := range slices.Concat(usual, r.config.Files, r.config.Dirs, r.config.Others) {
		info, err := os.Stat(path)
		if err != nil {
			fmt.Fprintf(&all, "%s: %v\n", path, err)
			continue
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || now.Sub(time.Unix(stat.Ctim.Unix())).Abs() < tick {
			return ""
		}
		fmt.Fprintln(&all, path, stat.Dev, stat.Ino, stat.Size, stat.Mode, stat.Mtim, stat.Ctim)
	}
	return all.String()
}
