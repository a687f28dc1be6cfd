package hostdns

import (
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestRestoreBringsBack: apply, apply and restore leave resolv.conf as it was, with content, mode
// and link, if libc could use it. No saved original remains. A file that only root could read
// becomes readable by everyone.
func TestRestoreBringsBack(t *testing.T) {
	tried := 0
	for seed := range uint64(250) {
		d := dice{rand.New(rand.NewPCG(seed, 54))}
		w := newTree(t, map[string]string{etcUpstreams: "server=10.0.7.7\n"})
		layResolvConf(d, w)
		before := w.files()
		seen := w.look()
		if text := before[etcResolvConf]; IsOurs([]byte(text)) || !usable(refuseCopies(&seen), seen.ResolvConf.Data) {
			continue
		}
		tried++
		first := w.apply()
		second := w.apply()
		if first.ResolvConf != Written || second.ResolvConf != Kept {
			t.Fatalf("seed %d: %s, then %s", seed, first.ResolvConf, second.ResolvConf)
		}
		if r := w.restore(true); r.ResolvConf != Restored {
			t.Fatalf("seed %d: %s", seed, r.ResolvConf)
		}
		after := w.files()
		want := strings.Replace(before[etcResolvConf], "-rw------- ", "-rw-r--r-- ", 1)
		if want != after[etcResolvConf] || after[varOriginal] != "" {
			t.Fatalf("seed %d: %q became %q, the saved original is %q", seed, before[etcResolvConf], after[etcResolvConf], after[varOriginal])
		}
	}
	if tried < 60 {
		t.Errorf("only %d hosts were tried", tried)
	}
}

// TestRestoreBringsBackLinks: the saved link's relative target was resolved from the wrong
// directory, where it may not exist or be the saved link itself. The hook then reported it as
// unreadable in each run and never removed it.
func TestRestoreBringsBackLinks(t *testing.T) {
	for _, target := range []string{"resolv.conf.orig", "elsewhere", "../etc/elsewhere", "/etc/elsewhere", "../run/NetworkManager/resolv.conf"} {
		t.Run(target, func(t *testing.T) {
			w := newTree(t, map[string]string{
				"/etc/resolv.conf.orig": generated, "/etc/elsewhere": generated,
				"/run/NetworkManager/resolv.conf": generated, etcResolvConf: "-> " + target,
			})
			before := w.files()[etcResolvConf]
			if r := w.apply(); r.ResolvConf != Written {
				t.Fatalf("resolv.conf: %s", r.ResolvConf)
			}
			if s := w.look(); string(s.Original.Data) != generated || s.Original.Link != target || s.Original.Err != nil {
				t.Errorf("the saved link is read as %s, %v", describeFile(s.Original), s.Original.Err)
			}
			w.restore(true)
			if after := w.files(); after[etcResolvConf] != before || after[varOriginal] != "" {
				t.Errorf("%q became %q, the saved original is %q", before, after[etcResolvConf], after[varOriginal])
			}
		})
	}
}

func (w *tree) look() State { return w.runner().Looker.Look(w.t.Context(), host().Event) }

func layResolvConf(d dice, w *tree) {
	w.put("/run/systemd/resolve/stub-resolv.conf", stubText)
	w.put("/run/systemd/resolve/resolv.conf", "nameserver 10.0.0.2\n")
	switch d.IntN(4) {
	case 0:
		w.put(etcResolvConf, pick(d, "-> ../run/systemd/resolve/stub-resolv.conf", "-> /run/systemd/resolve/resolv.conf", "-> /etc/elsewhere"))
		w.put("/etc/elsewhere", d.text())
	default:
		w.put(etcResolvConf, d.text())
		w.chmod(etcResolvConf, pick[fs.FileMode](d, 0o644, 0o644, 0o600, 0o664, 0o444))
	}
}
