package hostdns

import (
	"errors"
	"io/fs"
	"time"

	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// wayBackPatience bounds how long the daemon asks for the missing stamp of systemd's run of the
// hook. A run that was killed is repeated at once. Whatever keeps systemd from running the hook
// usually persists.
const wayBackPatience = 5 * time.Minute

// Look is what the daemon's look at the host found.
type Look struct {
	State      State
	Plan       Plan
	Pending    []string // files that the Plan writes
	IsAnswered bool     // the daemon listens on the address for resolv.conf
	Kubeconfig nodeconfig.Kubeconfig
	IsFirst    bool // of those that may request writes
	InPod      bool // there is no privileged half
}

// Wanted returns the files that the privileged half must write: copies of files that the daemon may
// not read, and files that are not as they should be. At the start it also asks for a refresh of
// existing copies, because the daemon cannot see whether a file in a closed directory has changed.
// It does the same for an unreadable /etc/resolv.conf when the daemon begins to answer: at boot
// NetworkManager's last event may have come earlier.
func (r *Requester) Wanted(now time.Time, l Look) []string {
	if l.InPod {
		return nil
	}
	files, paths := l.Pending, l.State.Paths
	if r.awaitsWayBack(now, l) {
		files = append(files, paths.WayBack)
	}
	before := r.isAnswered
	r.isAnswered = l.IsAnswered
	if l.IsAnswered && !before && errors.Is(l.State.ResolvConf.Err, fs.ErrPermission) {
		files = append(files, paths.ResolvConf)
	}
	if config := l.State.Config; config.FactsWanted != "" || l.IsFirst && config.FactsFile != "" {
		files = append(files, paths.Facts)
	}
	if k := l.Kubeconfig; k.Wanted != "" || l.IsFirst && k.Use != k.Original {
		files = append(files, paths.Kubeconfig)
	}
	return files
}

// awaitsWayBack reports whether the stamp is missing and is still asked for.
func (r *Requester) awaitsWayBack(now time.Time, l Look) bool {
	if l.Plan.Hold != NoWayBack || r.Invocation == "" || !l.IsAnswered {
		return false
	}
	if r.wayBackTill.IsZero() {
		r.wayBackTill = now.Add(wayBackPatience)
	}
	return now.Before(r.wayBackTill)
}
