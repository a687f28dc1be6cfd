package hostdns

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// Two programs that each restore a file after the other wrote it would never stop. After
// conflictRewrites rewrites of another program's content within conflictWindow, node-dns leaves the
// file alone for firstBackoff. Then it tries once. Each failed try doubles the backoff.
const (
	conflictRewrites = 5
	conflictWindow   = time.Minute
	firstBackoff     = 5 * time.Minute
	maxBackoff       = time.Hour
)

const rewritesVersion = 2

// rewrites is the history since boot of what we wrote, by path of the host: how other programs
// changed our files and how often we restored them. It does not contain files that were given back,
// or that another program wrote before our first write: the first write is not a conflict.
type rewrites map[string]fileHistory

type fileHistory struct {
	Wrote string      `json:"wrote"`          // fingerprint of our last content
	Over  []time.Time `json:"over,omitempty"` // when we overwrote another program's content, within conflictWindow of the last time
	By    string      `json:"by,omitempty"`   // that program, as the file said; "" if it did not
	// Backoff is how long the file is left alone, and Until is when that ends. 0 means that we
	// restore the file.
	Backoff time.Duration `json:"truce,omitempty"`
	Until   time.Time     `json:"until,omitzero"`
	// Earlier are the originals that later ones have replaced, oldest first.
	Earlier []earlier `json:"earlier,omitempty"`
}

// An earlier is an original of resolv.conf, and the fingerprint of our last file in its place. A
// VPN's script or dhclient-script copies our file, writes its own, and later restores the copy. The
// host then has this original, not the script's file. Our file does not contain the nameservers, so
// an edit may result in the same text. This counts only if the present original names a program as
// its writer: our file has that line too.
type earlier struct {
	Wrote    string `json:"wrote"`
	Original []byte `json:"original"` // its text, or that behind the link
	Link     string `json:"link,omitempty"`
}

// Limits of the earlier originals: their number, and the bytes of each.
const (
	maxEarlier     = 4
	maxEarlierText = 16 << 10
)

// replacing returns the history after a step that replaces the saved original.
func (f fileHistory) replacing(original File) fileHistory {
	if f.Wrote == "" || !original.Exists || len(original.Data) > maxEarlierText {
		return f
	}
	kept := slices.DeleteFunc(slices.Clone(f.Earlier), func(e earlier) bool { return e.Wrote == f.Wrote })
	kept = append(kept, earlier{f.Wrote, original.Data, original.Link})
	f.Earlier = kept[max(0, len(kept)-maxEarlier):]
	return f
}

// original returns the earlier original if another program has restored our file of that time. If
// our present file has the same content, nothing was restored.
func (f fileHistory) original(now File) (File, bool) {
	now.Mode = 0o644
	found := fingerprint(now)
	for _, e := range f.Earlier {
		if e.Wrote == found && f.Wrote != found {
			return File{Exists: true, Link: e.Link, Data: e.Original, Mode: 0o644}, true
		}
	}
	return File{}, false
}

type rewritesText struct {
	Version int      `json:"version"`
	Files   rewrites `json:"files"`
	// Said is the fingerprint of NetworkManager's own list at the last rewrite.
	Said string `json:"said,omitempty"`
}

// parseRewrites parses the history. A damaged one, or one of another version, counts as empty: the
// cost is at most five more rewrites. See kept for the next run.
func parseRewrites(data []byte) rewritesText {
	var h rewritesText
	if err := json.Unmarshal(data, &h); err != nil || h.Version != rewritesVersion {
		return rewritesText{}
	}
	return h
}

// bytes returns the file's content, or nil for an empty history.
func (h rewritesText) bytes() []byte {
	if len(h.Files) == 0 {
		return nil
	}
	h.Version = rewritesVersion
	text, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		panic(err) // cannot fail except for a year beyond 9999
	}
	return append(text, '\n')
}

// fingerprint identifies a file's state, including its mode. It is "" if the file does not exist.
// It need not resist attacks: a collision only hides that a file was overwritten.
func fingerprint(f File) string {
	text := fmt.Appendf(nil, "%v %s", f.Mode.Perm(), f.Data)
	switch {
	case !f.Exists:
		return ""
	case f.Link != "":
		text = []byte("-> " + f.Link)
	}
	sum := fnv.New128a()
	sum.Write(text)
	return hex.EncodeToString(sum.Sum(nil))
}

// put returns the file that a step leaves.
func (s Step) put() File {
	return File{Exists: s.Action != Remove, Link: s.Target, Data: s.Data, Mode: s.Mode}
}

// isOver reports whether another program has overwritten our content.
func (f fileHistory) isOver(now File) bool { return f.Wrote != "" && f.Wrote != fingerprint(now) }

// isBackingOff reports whether the file is left alone now. A clock that was set back must not
// extend that forever.
func (f fileHistory) isBackingOff(now time.Time) bool {
	return now.Before(f.Until) && f.Until.Sub(now) <= maxBackoff
}

// again returns the history after one more rewrite.
func (f fileHistory) again(now time.Time) fileHistory {
	f.Over = slices.DeleteFunc(slices.Clone(f.Over), func(t time.Time) bool { return t.After(now) || now.Sub(t) >= conflictWindow })
	f.Over = append(f.Over, now)
	switch {
	case f.Backoff > 0 && now.Sub(f.Until) < f.Backoff: // the try after the backoff did not last
		f.Backoff = min(2*f.Backoff, maxBackoff)
	case len(f.Over) >= conflictRewrites:
		f.Backoff = firstBackoff
	default:
		f.Backoff, f.Until = 0, time.Time{}
		return f
	}
	f.Until = now.Add(f.Backoff)
	return f
}

// past is the history in a State, with what one more run needs to continue it.
type past struct {
	rewrites rewritesText
	said     string // current fingerprint of NetworkManager's own list
	now      time.Time
}

func (s *State) past() past {
	return past{parseRewrites(s.Rewrites.Data), fingerprint(s.NetworkManagerConf), s.now()}
}

// HaveHistory reports whether files include one that HookWrites counts.
func (p Paths) HaveHistory(files []string) bool {
	return slices.Contains(files, p.ResolvConf) || slices.Contains(files, p.DropIn)
}

// HookWrites returns how often node-dns wrote /etc/resolv.conf or systemd-resolved's drop-in since
// an earlier look, according to the history. The number is a lower bound: two identical writes
// between two looks count as one if no other program wrote in between.
func (s *State) HookWrites(earlier State) (n int) {
	was, is := parseRewrites(earlier.Rewrites.Data), parseRewrites(s.Rewrites.Data)
	for _, path := range []string{s.Paths.ResolvConf, s.Paths.DropIn} {
		path = s.Paths.host(path)
		n += is.Files[path].since(was.Files[path])
	}
	if n == 0 && is.Said != "" && is.Said != was.Said { // the same text, over NetworkManager's new list
		return 1
	}
	return n
}

// since returns how often a file was written since an earlier history of it. Two writes may have
// the same second.
func (f fileHistory) since(earlier fileHistory) (n int) {
	known := slices.Clone(earlier.Over)
	for _, t := range f.Over {
		if i := slices.IndexFunc(known, t.Equal); i >= 0 {
			known = slices.Delete(known, i, i+1)
		} else {
			n++
		}
	}
	if n == 0 && f.Wrote != "" && f.Wrote != earlier.Wrote {
		return 1
	}
	return n
}

// backoffReason returns the reason why the file at path, a path of the host, is left alone now, or
// "".
func (p past) backoffReason(path string, now File) string {
	f := p.rewrites.Files[path]
	if !f.isOver(now) || !f.isBackingOff(p.now) {
		return ""
	}
	return claimed(f.By) + " keeps overwriting it; next try after " + untilText(f) + `, or now with "origin-dns-dispatcher apply"`
}

// endBackoffs restarts the count for files that are left alone, and returns a warning for each.
func (s *State) endBackoffs() (warnings []string) {
	h, now := parseRewrites(s.Rewrites.Data), s.now()
	for path, f := range h.Files {
		if f.isBackingOff(now) {
			warnings = append(warnings, path+": not waiting until "+untilText(f)+", because apply was run by hand; "+
				claimed(f.By)+" kept overwriting it")
			h.Files[path] = fileHistory{Wrote: f.Wrote, Earlier: f.Earlier}
		}
	}
	if len(warnings) > 0 {
		s.Rewrites.Data = h.bytes()
	}
	slices.Sort(warnings)
	return warnings
}

func untilText(f fileHistory) string { return f.Until.UTC().Format("15:04:05 MST") }

// claimed is the program that wrote a file, as the file says.
func claimed(by string) string {
	if by == "" {
		return "an unknown program"
	}
	return strconv.Quote(by)
}

// after returns the history file after these steps, or nil if none is needed. given means that
// resolv.conf was given back, so later writers do not overwrite ours. A conflict continues once the
// file is ours again.
func (p past) after(paths Paths, done []Step, given bool) []byte {
	h := p.rewrites
	if h.Files = maps.Clone(h.Files); h.Files == nil {
		h.Files = rewrites{}
	}
	for _, step := range done {
		if step.Secret {
			continue // even a fingerprint of a secret must not be public
		}
		path := paths.host(step.Path)
		if ours := paths.host(paths.ResolvConf); step.Path == paths.Original && h.Files[ours].Wrote != "" {
			h.Files[ours] = h.Files[ours].replacing(step.Before)
		}
		f := h.Files[path]
		// NetworkManager is not in conflict with us when it writes a new list.
		news := byNetworkManager(step.Before.Data) && p.said != h.Said
		switch {
		case step.isNotifyOnly():
			f = f.again(p.now)
			f.By = string(step.Tell)
		case f.isOver(step.Before) && !news:
			f = f.again(p.now)
			f.By = writer(step.Before.Data)
		}
		f.Wrote = fingerprint(step.put())
		if step.Path == paths.ResolvConf {
			h.Said = p.said
			if given || step.Action != WriteFile || !IsOurs(step.Data) {
				f.Wrote = ""
			}
		}
		if h.Files[path] = f; f.Wrote == "" && len(f.Over)+len(f.Earlier) == 0 {
			delete(h.Files, path)
		}
	}
	return h.bytes()
}

// kept returns the history after a run that left resolv.conf as found, because it is what this run
// would write. The entry of another version's history is lost, and without one an edit would not be
// recognized.
func (p past) kept(paths Paths, history []byte, found File) []byte {
	h, path := parseRewrites(history), paths.host(paths.ResolvConf)
	f := h.Files[path]
	if found.Link != "" || !IsOurs(found.Data) || f.Wrote != "" {
		return history
	}
	if h.Files == nil {
		h.Files = rewrites{}
	}
	f.Wrote, h.Said = fingerprint(found), p.said
	h.Files[path] = f
	return h.bytes()
}

// removeConflicts removes from a plan the steps that would continue a conflict.
func (p *Plan) removeConflicts(s *State) {
	p.Capture = slices.DeleteFunc(p.Capture, func(step Step) bool {
		why := p.past.backoffReason(p.Paths.host(step.Path), step.Before)
		if why != "" {
			p.Warnings = append(p.Warnings, p.Paths.host(step.Path)+" is left alone: "+why)
		}
		return why != ""
	})
	p.TakeFromNM = slices.DeleteFunc(p.TakeFromNM, func(step Step) bool {
		return p.past.backoffReason(p.Paths.host(step.Path), step.Before) != ""
	})
	if p.Via == nodeconfig.ResolvConfResolved {
		p.removeResolvedConflict()
		return
	}
	path := p.Paths.host(p.Paths.ResolvConf)
	if len(p.IfAnswering) == 0 || !p.past.rewrites.Files[path].isOver(s.ResolvConf) {
		return
	}
	p.OverwrittenBy = claimed(writer(s.ResolvConf.Data))
	if IsOurs(p.found.Data) && !s.isOurs() {
		p.OverwrittenBy = "an edit of its lines"
	}
	if why := p.past.backoffReason(path, s.ResolvConf); why != "" {
		p.RewriteLoop, p.Hold, p.IfAnswering = true, cmp.Or(p.Hold, why), nil
	}
}
