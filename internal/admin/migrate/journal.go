package migrate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// JournalFile is the path of the journal below the root.
const JournalFile = "/var/lib/node-dns/migration.json"

const journalVersion = 1

// Phase is the progress of a migration.
type Phase string

const (
	Applying Phase = "applying"
	Applied  Phase = "applied"
	Undoing  Phase = "undoing"
)

// Journal records a migration: the steps, the progress, and the original state. It is written
// before each step.
type Journal struct {
	Version  int       `json:"version"`
	Phase    Phase     `json:"phase"`
	Began    time.Time `json:"began"`
	Findings []Finding `json:"findings"`
	Steps    []Step    `json:"steps"`
	// Done is the number of finished steps. The next one may have been started.
	Done  int     `json:"done"`
	Saved []Saved `json:"saved"`
	// Before are the questions that were answered before the first step, with their results.
	Before []Answer `json:"before,omitempty"`
}

// ReadJournal reads the journal below root. It returns nil if there is none.
func ReadJournal(root string) (*Journal, error) {
	data, err := os.ReadFile(filepath.Join(root, JournalFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	var j Journal
	if err := json.Unmarshal(data, &j); err != nil {
		return nil, fmt.Errorf("reading the journal %s: %w", JournalFile, err)
	}
	if j.Version != journalVersion || j.Done < 0 || j.Done > len(j.Steps) {
		return nil, fmt.Errorf("reading the journal %s: version %d with %d of %d steps is invalid", JournalFile, j.Version, j.Done, len(j.Steps))
	}
	return &j, nil
}

// write saves the journal to disk. Only root may read it, because it may contain copies of
// protected files.
func (j Journal) write(root string) error {
	j.Version = journalVersion
	data, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	path := filepath.Join(root, JournalFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	_, err = atomicfile.Writer{}.Write(path, append(data, '\n'), 0o600)
	return err
}

// LockFile is held during a migration. It differs from the lock of the hook, which runs during a
// migration.
const LockFile = "/run/node-dns-migrate.lock"

// lockPatience is how long to wait for another migration. Waiting for its end would take too long.
const lockPatience = 100 * time.Millisecond

// Lock prevents a second migration from starting. path is LockFile except in tests.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	release, err := hostdns.Lock(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("another migration is in progress: %w", err)
	}
	return func() {
		os.Remove(path) // a process that waits for it fails soon
		release()
	}, nil
}

func makeDir(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("creating a directory: %w", err)
	}
	return nil
}

// Saved is the state of a path before the first step.
type Saved struct {
	Path   string      `json:"path"`
	Kind   string      `json:"kind"` // absent, file, link or dir
	Mode   fs.FileMode `json:"mode,omitempty"`
	UID    int         `json:"uid,omitempty"`
	GID    int         `json:"gid,omitempty"`
	Label  string      `json:"label,omitempty"` // SELinux label; empty if there is none
	Time   time.Time   `json:"time,omitzero"`   // time of the last change
	Data   []byte      `json:"data,omitempty"`
	Target string      `json:"target,omitempty"` // target of a link
	Seen   []byte      `json:"seen,omitempty"`   // what the undo found, if Data is the rest of that; see keepEdits
}

// maxSaved limits the size of a saved file, in bytes. A hook or a resolv.conf has a few thousand.
const maxSaved = 1 << 20

const modeBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// save reads the state of a path below root.
func save(root, path string) (Saved, error) {
	s, err := saveAt(filepath.Join(root, path))
	s.Path = path
	if err != nil {
		return s, fmt.Errorf("keeping %s: %w", path, err)
	}
	return s, nil
}

func saveAt(path string) (s Saved, err error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return Saved{Kind: "absent"}, nil
	}
	if err != nil {
		return s, err
	}
	s.Mode, s.Time = info.Mode()&modeBits, info.ModTime()
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		s.UID, s.GID = int(stat.Uid), int(stat.Gid)
	}
	if s.Label, err = atomicfile.Label(path); err != nil {
		return s, err
	}
	switch info.Mode().Type() {
	case 0:
		s.Kind = "file"
		s.Data, err = readWhole(path)
	case fs.ModeSymlink:
		s.Kind = "link"
		s.Target, err = os.Readlink(path)
	case fs.ModeDir:
		s.Kind = "dir"
	default:
		err = fmt.Errorf("expected a file, a link or a directory, got %v", info.Mode())
	}
	return s, err
}

func readWhole(path string) ([]byte, error) {
	f, _, err := atomicfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSaved+1))
	if err == nil && len(data) > maxSaved {
		err = fmt.Errorf("longer than %d bytes", maxSaved)
	}
	return data, err
}

// restore restores the path. It does not touch a path that is unchanged.
func (s Saved) restore(root string) error {
	path := filepath.Join(root, s.Path)
	now, err := saveAt(path)
	if err == nil && now.same(s) {
		return nil
	}
	if err := s.restoreAt(path, now); err != nil {
		return fmt.Errorf("restoring %s: %w", s.Path, err)
	}
	return nil
}

func (s Saved) restoreAt(path string, now Saved) error {
	switch s.Kind {
	case "absent":
		if now.Kind == "dir" {
			if err := unix.Rmdir(path); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
				return err
			}
			return nil
		}
		return remove(path)
	case "dir":
		if now.Kind == "absent" {
			if err := os.Mkdir(path, s.Mode); err != nil {
				return err
			}
		}
		return s.attributes(path)
	case "link":
		if _, err := (atomicfile.Writer{}).Symlink(path, s.Target); err != nil {
			return err
		}
		return os.Lchown(path, s.UID, s.GID)
	}
	if _, err := (atomicfile.Writer{}).Write(path, s.Data, s.Mode); err != nil {
		return err
	}
	return s.attributes(path)
}

// attributes sets the owner, the mode, the label and the time of a file. The owner comes first,
// because chown(2) clears the set-user-ID bit.
func (s Saved) attributes(path string) error {
	err := errors.Join(os.Chown(path, s.UID, s.GID), os.Chmod(path, s.Mode))
	if s.Label != "" {
		if labelErr := unix.Lsetxattr(path, "security.selinux", []byte(s.Label), 0); !errors.Is(labelErr, unix.ENOTSUP) {
			err = errors.Join(err, labelErr)
		}
	}
	if s.Kind == "file" {
		err = errors.Join(err, os.Chtimes(path, time.Time{}, s.Time))
	}
	return err
}

// remove removes a file or link. A missing one is not an error.
func remove(path string) error {
	_, err := atomicfile.Writer{}.Remove(path)
	return err
}

// takeNewer replaces a saved resolv.conf by what the host would have now without the migration: the
// present file, if an admin has replaced ours; NetworkManager's present list, if NetworkManager
// wrote the saved file; or the file that an admin has written since, which the hook has saved as
// the original. It changes nothing if resolv.conf is a link or as saved. It ignores files that did
// not change after the migration began: the hook may have left a copy at an earlier stop.
func takeNewer(root string, began time.Time, saved []Saved) {
	paths := hostdns.NewPaths(root)
	byNetworkManager := func(text []byte) bool { return strings.Contains(resolvconf.Parse(text).Owner(), "NetworkManager") }
	for i, s := range saved {
		if s.Path != libcFile || hostdns.IsOurs(s.Data) {
			continue
		}
		newer, err := saveAt(paths.ResolvConf)
		if err != nil || newer.Kind == "link" || newer.Kind == s.Kind && bytes.Equal(newer.Data, s.Data) {
			continue
		}
		path, isManaged := paths.ResolvConf, byNetworkManager(s.Data) && networkManagerWrites(root, saved)
		if len(nameservers(newer.Data)) == 0 || asksItself([]Saved{newer}) {
			if path = paths.Original; isManaged {
				path = paths.NetworkManagerConf
			}
			newer, err = saveAt(path)
		}
		if err != nil || newer.Kind != "file" || len(nameservers(newer.Data)) == 0 || bytes.Equal(newer.Data, s.Data) ||
			byNetworkManager(newer.Data) && !isManaged || !hasChangedSince(path, began) {
			continue
		}
		if path == paths.NetworkManagerConf {
			saved[i].Data, saved[i].Time = newer.Data, newer.Time
		} else {
			newer.Path, newer.Label = s.Path, cmp.Or(s.Label, newer.Label)
			saved[i] = newer
		}
	}
}

// hasChangedSince reports whether a file was written or moved to path after began. mv(1) keeps the
// modification time, but not the change time.
func hasChangedSince(path string, began time.Time) bool {
	var stat unix.Stat_t
	return unix.Lstat(path, &stat) == nil && time.Unix(stat.Ctim.Unix()).After(began)
}

// networkManagerWrites reports whether NetworkManager itself writes resolv.conf according to its
// configuration files, without our snippet. If the migration has changed these files, it returns
// false.
func networkManagerWrites(root string, saved []Saved) bool {
	if slices.ContainsFunc(saved, func(s Saved) bool { return strings.HasPrefix(s.Path, "/etc/NetworkManager/") }) {
		return false
	}
	conf, err := nm.ReadConf(root, hostdns.NewPaths("").Snippet)
	return err == nil && nm.WritesResolvConf(conf.DNS.Value, conf.RcManager.Value) && conf.RcManager.Value != "resolvconf"
}

// same reports whether two states are equal except for the path. The time of a directory is
// ignored, because other programs change it.
func (s Saved) same(o Saved) bool {
	return s.Kind == o.Kind && s.Mode == o.Mode && s.UID == o.UID && s.GID == o.GID && s.Label == o.Label &&
		bytes.Equal(s.Data, o.Data) && s.Target == o.Target && (s.Kind != "file" || s.Time.Equal(o.Time))
}
