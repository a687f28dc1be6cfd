package hostdns

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The first repetition of a request comes after requestAgain, and each further one after twice as long: a file that
// cannot be written (it is read-only, or nobody hears the request) must not make a busy circle. One that another tool
// writes back is none of this: the plan bounds how often that is put right, for NetworkManager's events too.
const (
	requestAgain    = time.Second
	requestAgainMax = time.Minute
	// requestVain is how often the same is asked for in vain until that is a problem of its own.
	requestVain = 3
)

// Requester asks the privileged half to bring the host's files up to date: it writes the request file that a path unit
// watches. It belongs to one goroutine.
type Requester struct {
	Path    string
	Want    string        // what is asked for; "": nothing
	times   int           // how often it was
	next    time.Time     // when it may be asked for again
	delay   time.Duration // the wait after that
	Owed    bool          // what the hook keeps a history of was asked for, and is not in there yet
	failure error         // why the last request could not be written; nil: it was
}

// Asked is what became of a request.
type Asked int

const (
	NothingNew Asked = iota // nothing is wanted, or the same as before
	AskedNow                // something else is wanted, and was asked for
	AskedDone               // what was wanted has been done
)

// Ask writes a request when pending is not empty and its time has come. It says what is new, and when to come back: zero
// when nothing is pending.
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
		return fmt.Errorf("making the runtime directory: %w", err)
	}
	if err := os.WriteFile(r.Path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("asking for the privileged half: %w", err)
	}
	return nil
}

// Problem is what an admin should know of requests that nothing came of; "": all is well.
func (r *Requester) Problem() string {
	switch {
	case r.failure != nil:
		return r.failure.Error()
	case r.times <= requestVain:
		return ""
	}
	return "asked in vain for " + r.Want + " to be written: systemctl status node-dns-apply.path says whether that was heard, " +
		"journalctl -u node-dns-apply what came of it; origin-dns-dispatcher apply does it by hand"
}
