package hostdns

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A request is repeated after requestAgain, and then after twice the last wait: a file that cannot
// be written (because it is read-only, or nothing reads the request) must not cause a busy loop. A
// file that another tool keeps overwriting is not limited here, but by the plan, which also covers
// NetworkManager's events.
const (
	requestAgain    = time.Second
	requestAgainMax = time.Minute
	// failuresToReport is the number of unsuccessful requests after which the failure is reported.
	failuresToReport = 3
)

// Requester asks the privileged process to update the host's files: it writes the request file that
// a path unit watches. It belongs to one goroutine.
type Requester struct {
	Path       string
	Invocation string // systemd's ID of the daemon's start; "" if it was started by hand

	Want    string        // the pending request; "" if nothing is pending
	times   int           // number of requests for Want
	next    time.Time     // earliest time of the next request
	delay   time.Duration // wait after that one
	Owed    bool          // a request is not yet in the hook's history
	failure error         // why the last request could not be written; nil if it was

	isAnswered  bool      // Look.IsAnswered of the last look
	wayBackTill time.Time // time until which the missing way-back stamp is requested; zero if it was not missing
}

// Asked is the outcome of a call to Ask.
type Asked int

const (
	NothingNew Asked = iota // nothing is wanted, or the same as before
	AskedNow                // something else is wanted, and was requested
	AskedDone               // the wanted change is done
)

// Ask writes a request if pending is not empty and the next request is due. It returns what is new
// and when to call again; zero means that nothing is pending.
func (r *Requester) Ask(now time.Time, reason string, pending []string) (news Asked, wait time.Duration) {
	want := strings.Join(pending, " ")
	switch {
	case want == "":
		if r.times > 0 {
			news = AskedDone
		}
		r.Want, r.times, r.failure = "", 0, nil
		return news, 0
	case want != r.Want:
		r.Want, r.times, r.delay, r.next = want, 0, requestAgain, now
	}
	if now.Before(r.next) {
		return NothingNew, r.next.Sub(now)
	}
	if r.times == 0 {
		news = AskedNow
	}
	r.times++
	r.next, r.delay = now.Add(r.delay), min(2*r.delay, requestAgainMax)
	r.failure = r.write(now, reason)
	return news, r.next.Sub(now)
}

func (r *Requester) write(now time.Time, reason string) error {
	text := fmt.Sprintf("%s %s: %s\n", now.UTC().Format(time.RFC3339Nano), reason, r.Want)
	if err := os.MkdirAll(filepath.Dir(r.Path), 0o755); err != nil {
		return fmt.Errorf("creating the runtime directory: %w", err)
	}
	if err := os.WriteFile(r.Path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("requesting a run of origin-dns-dispatcher: %w", err)
	}
	return nil
}

// Problem describes unsuccessful requests for an admin. "" means that there are none.
func (r *Requester) Problem() string {
	switch {
	case r.failure != nil:
		return r.failure.Error()
	case r.times <= failuresToReport:
		return ""
	}
	return r.Want + " was requested several times but not written; check \"systemctl status node-dns-apply.path\" and " +
		"\"journalctl -u node-dns-apply\", or run \"origin-dns-dispatcher apply\""
}
