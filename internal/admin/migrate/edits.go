package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// keepEdits keeps what other programs have written to a file since a step wrote or removed it: an
// edited node-dns.yaml, or the kubelet's configuration after an upgrade of the cluster. From an
// edited file, only what the steps added is removed. A file without that stays. Otherwise the file
// from before the migration comes back. The version that is given up gets another name, which an
// admin is told, so nothing is lost.
func (a Applier) keepEdits(j *Journal) error {
	var errs []error
	for i, s := range j.Saved {
		path, steps := filepath.Join(a.base(), s.Path), j.ownersOf(s.Path)
		now, err := saveAt(path)
		if err != nil || len(steps) == 0 || now.Kind == "absent" || now.Kind == "dir" || s.isAsSaved(now) || s.isOfMigration(now, steps) {
			continue
		}
		rest, removed, ok := withoutAdded(string(now.Data), string(s.Data), steps)
		now.Path = s.Path
		switch isEdit := ok && s.Kind == "file" && now.Kind == "file"; {
		case isEdit && removed > 0:
			now.Seen, now.Data = now.Data, []byte(rest)
			j.Saved[i] = now
			a.tell("keep the later changes of " + s.Path)
			continue
		case isEdit:
			aside := freeName(path)
			if _, err := (atomicfile.Writer{}).Write(aside, s.Data, s.Mode); err == nil {
				errs = append(errs, s.attributes(aside))
				j.Saved[i] = now
				a.tell(fmt.Sprintf("keep %s, which was replaced since; the file from before the migration is %s", s.Path, a.shown(aside)))
				continue
			}
		case ok && s.Kind == "absent" && removed > 0 && strings.TrimSpace(rest) == "":
			continue
		}
		aside := freeName(path)
		if err := os.Rename(path, aside); err != nil {
			errs = append(errs, err)
			continue
		}
		a.tell(fmt.Sprintf("%s has changed since; what it had is now in %s", s.Path, a.shown(aside)))
	}
	return errors.Join(errs...)
}

// shown returns a path as an admin knows it.
func (a Applier) shown(path string) string {
	return strings.TrimPrefix(path, strings.TrimSuffix(a.base(), "/"))
}

// freeName returns a name beside path that does not exist. Directories of hooks and of drop-ins are
// not affected by names with this end: NetworkManager-dispatcher(8), dnsmasq(8) and the kubelet
// ignore them.
func freeName(path string) string {
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s.undo%d~", path, n)
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name
		}
	}
}

// isAsSaved reports whether the present file has the saved content.
func (s Saved) isAsSaved(now Saved) bool {
	return now.Kind == s.Kind && bytes.Equal(now.Data, s.Data) && now.Target == s.Target
}

// isOfMigration reports whether the present file is as a step wrote it, or as an earlier attempt to
// undo the migration found it.
func (s Saved) isOfMigration(now Saved, steps []Step) bool {
	return s.Seen != nil && bytes.Equal(now.Data, s.Seen) ||
		slices.ContainsFunc(steps, func(step Step) bool { return step.Kind == WriteFile && step.Content == string(now.Data) })
}

// ownersOf returns the steps that write or remove the file at path, as far as they were started.
// The files that other programs keep writing have none: see takeNewer and takeFromOpenresolv.
func (j Journal) ownersOf(path string) []Step {
	return slices.DeleteFunc(slices.Clone(j.Steps[:min(j.Done+1, len(j.Steps))]), func(s Step) bool {
		return s.Path != path || path == resolvconfFile || !slices.Contains([]Kind{WriteFile, RemoveFile, Release}, s.Kind)
	})
}

// withoutAdded returns text without what the steps added to the end of the file that was before,
// and how many additions were there. ok is false if a step did something else, if an addition is
// there twice, or if the next line belongs to it: in YAML, one that begins with a blank.
func withoutAdded(text, before string, steps []Step) (rest string, removed int, ok bool) {
	for _, step := range steps {
		added, isAdded := strings.CutPrefix(step.Content, before)
		if !isAdded || added == "" {
			return "", 0, false
		}
		before = step.Content
		head, tail, isThere := strings.Cut(text, added)
		if !isThere {
			continue
		}
		if strings.Contains(tail, added) || strings.HasPrefix(tail, " ") || strings.HasPrefix(tail, "\t") {
			return "", 0, false
		}
		text, removed = head+tail, removed+1
	}
	return text, removed, true
}
