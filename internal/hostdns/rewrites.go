package hostdns

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// Two programs that each put a file right whenever the other has written it never end. After fightRewrites rewrites of what
// somebody else wrote, within fightWindow, the file is left to the other for truce; then it is tried once, and after each
// try that does not hold the truce is twice as long.
const (
	fightRewrites = 5
	fightWindow   = time.Minute
	truce         = 5 * time.Minute
	truceMax      = time.Hour
)

// rewritesVersion is the version of the history's file.
const rewritesVersion = 1

// rewrites is the history of what we wrote, by the host's paths, since the boot: what other programs make of our files, and
// how often we put that right. A file that was given back, or is as somebody else wants it before we ever wrote it, is not
// in it: the first time is no fight.
type rewrites map[string]fight

// fight is what happened to one file.
type fight struct {
	Wrote string      `json:"wrote"`          // the fingerprint of what we wrote last
	Over  []time.Time `json:"over,omitempty"` // when that was over somebody else's, within fightWindow of the last one
	By    string      `json:"by,omitempty"`   // who that was, as the file said; "" when it did not
	// Truce is how long the file is left to them, Until the moment when it ends. 0: it is ours to put right.
	Truce time.Duration `json:"truce,omitempty"`
	Until time.Time     `json:"until,omitzero"`
}

// rewritesText is the history's file.
type rewritesText struct {
	Version int      `json:"version"`
	Files   rewrites `json:"files"`
	// Said is the fingerprint of NetworkManager's own list at the last rewrite.
	Said string `json:"said,omitempty"`
}

// parseRewrites reads the history. One that is damaged, or of another version, is none: the worst that comes of that are
// five more rewrites.
func parseRewrites(data []byte) rewritesText {
	var h rewritesText
	if err := json.Unmarshal(data, &h); err != nil || h.Version != rewritesVersion {
		return rewritesText{}
	}
	return h
}

// bytes is the file; an empty history has none.
func (h rewritesText) bytes() []byte {
	if len(h.Files) == 0 {
		return nil
	}
	h.Version = rewritesVersion
	text, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		panic(err) // there is nothing in it that could not be written, but a year beyond 9999
	}
	return append(text, '\n')
}

// fingerprint tells one state of a file from another, its mode too; "": it does not exist.
func fingerprint(f File) string {
	text := fmt.Appendf(nil, "%v %s", f.Mode.Perm(), f.Data)
	switch {
	case !f.Exists:
		return ""
	case f.Link != "":
		text = []byte("-> " + f.Link)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}

// put is the file that a step leaves.
func (s Step) put() File {
	return File{Exists: s.Action != Remove, Link: s.Target, Data: s.Data, Mode: s.Mode}
}

// isOver reports whether what stands in a file is somebody else's, over ours.
func (f fight) isOver(now File) bool { return f.Wrote != "" && f.Wrote != fingerprint(now) }

// isTruce reports whether the file is left to them now. A clock that was set back must not make that for ever.
func (f fight) isTruce(now time.Time) bool {
	return now.Before(f.Until) && f.Until.Sub(now) <= truceMax
}

// again is the history after one more rewrite of what they wrote.
func (f fight) again(now time.Time) fight {
	f.Over = slices.DeleteFunc(slices.Clone(f.Over), func(t time.Time) bool { return t.After(now) || now.Sub(t) >= fightWindow })
	f.Over = append(f.Over, now)
	switch {
	case f.Truce > 0 && now.Sub(f.Until) < f.Truce: // what was tried after the truce did not hold
		f.Truce = min(2*f.Truce, truceMax)
	case len(f.Over) >= fightRewrites:
		f.Truce = truce
	default:
		f.Truce, f.Until = 0, time.Time{}
		return f
	}
	f.Until = now.Add(f.Truce)
	return f
}

// past is the history as a State shows it, and what one more run needs to go on with it.
type past struct {
	rewrites rewritesText
	said     string // the fingerprint of NetworkManager's own list now
	now      time.Time
}

func (s State) past() past {
	return past{parseRewrites(s.Rewrites.Data), fingerprint(s.NetworkManagerConf), s.now()}
}

// HaveHistory reports whether one of these files is one that HookWrites counts.
func (p Paths) HaveHistory(files []string) bool {
	return slices.Contains(files, p.ResolvConf) || slices.Contains(files, p.DropIn)
}

// HookWrites is how often /etc/resolv.conf, or systemd-resolved's drop-in, was written by our hand since an earlier look, as the history
// tells it: at least so often, as two of the same within one look are one where nobody wrote in between.
func (s State) HookWrites(earlier State) (n int) {
	was, is := parseRewrites(earlier.Rewrites.Data), parseRewrites(s.Rewrites.Data)
	for _, path := range []string{s.Paths.ResolvConf, s.Paths.DropIn} {
		path = s.Paths.host(path)
		n += is.Files[path].since(was.Files[path])
	}
	if n == 0 && is.Said != "" && is.Said != was.Said { // the same text, over NetworkManager's news
		return 1
	}
	return n
}

// since is how often a file was written since an earlier history of it. Two moments may be the same second.
func (f fight) since(earlier fight) (n int) {
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

// fought says why the file at path, a path of the host, is left as it is now; "": it is not.
func (p past) fought(path string, now File) string {
	f := p.rewrites.Files[path]
	if !f.isOver(now) || !f.isTruce(p.now) {
		return ""
	}
	return claimed(f.By) + " writes it over ours again and again; tried again after " + untilText(f) + `, or now by "origin-dns-dispatcher apply"`
}

// endTruces begins a new count for the files that are left to another program, and returns a warning for each.
func (s *State) endTruces() (warnings []string) {
	h, now := parseRewrites(s.Rewrites.Data), s.now()
	for path, f := range h.Files {
		if f.isTruce(now) {
			warnings = append(warnings, path+" is no longer left alone until "+untilText(f)+", because apply was run by hand: "+
				claimed(f.By)+" wrote it over ours again and again")
			h.Files[path] = fight{Wrote: f.Wrote}
		}
	}
	if len(warnings) > 0 {
		s.Rewrites.Data = h.bytes()
	}
	slices.Sort(warnings)
	return warnings
}

// untilText is when a truce ends, for people.
func untilText(f fight) string { return f.Until.UTC().Format("15:04:05 MST") }

// claimed is who wrote a file, by its own word.
func claimed(by string) string {
	if by == "" {
		return "somebody who does not say who"
	}
	return strconv.Quote(by)
}

// after is the history's file when these steps have been taken; nil: none is needed. given says that resolv.conf was given
// back: who writes it now writes over nothing of ours. A fight goes on where it was when it is ours again.
func (p past) after(paths Paths, done []Step, given bool) []byte {
	h := p.rewrites
	if h.Files = maps.Clone(h.Files); h.Files == nil {
		h.Files = rewrites{}
	}
	for _, step := range done {
		if step.Secret {
			continue // not even a fingerprint of it is for all to read
		}
		path := paths.host(step.Path)
		f := h.Files[path]
		// A NetworkManager that writes because it has something new to say does not fight.
		news := byNetworkManager(step.Before.Data) && p.said != h.Said
		switch {
		case step.isRetold():
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
		if h.Files[path] = f; f.Wrote == "" && len(f.Over) == 0 {
			delete(h.Files, path)
		}
	}
	return h.bytes()
}

// heed leaves out of a plan what would go on with a fight.
func (p *Plan) heed(s State) {
	p.Capture = slices.DeleteFunc(p.Capture, func(step Step) bool {
		why := p.past.fought(p.Paths.host(step.Path), step.Before)
		if why != "" {
			p.Warnings = append(p.Warnings, p.Paths.host(step.Path)+" is left alone: "+why)
		}
		return why != ""
	})
	p.TakeFromNM = slices.DeleteFunc(p.TakeFromNM, func(step Step) bool {
		return p.past.fought(p.Paths.host(step.Path), step.Before) != ""
	})
	if p.Via == nodeconfig.ResolvConfResolved {
		p.heedResolved()
		return
	}
	path := p.Paths.host(p.Paths.ResolvConf)
	if len(p.IfAnswering) == 0 || !p.past.rewrites.Files[path].isOver(s.ResolvConf) {
		return
	}
	p.OverwrittenBy = claimed(writer(s.ResolvConf.Data))
	if IsOurs(p.found.Data) && !s.isOurs() {
		p.OverwrittenBy = "somebody who changed its lines"
	}
	if why := p.past.fought(path, s.ResolvConf); why != "" {
		p.RewriteLoop, p.Hold, p.IfAnswering = true, cmp.Or(p.Hold, why), nil
	}
}
