package journal

import (
	"io"
	"log/slog"
	"os"

	"github.com/coreos/go-systemd/v22/journal"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// Where journald listens: for entries, and for lines.
const (
	entrySocket = "/run/systemd/journal/socket"
	lineSocket  = "/run/systemd/journal/stdout"
)

// NewLogger logs to the journal where stderr leads there, as entries of the program called identifier; else it writes
// key=value lines with the time to stderr.
func NewLogger(stderr io.Writer, identifier string, level slog.Leveler) *slog.Logger {
	if termtext.Raw(stderr) == io.Writer(os.Stderr) && leadsToJournal(unix.Stderr) {
		return slog.New(newHandler(&sender{socket: entrySocket, stderr: unix.Stderr, fd: -1}, identifier, ownUnit(), level))
	}
	return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
}

// leadsToJournal reports whether stderr is the journal: by JOURNAL_STREAM, whose device and inode must be stderr's, as a
// desktop's terminals inherit the variable too (systemd.exec(5)); or, as nm-dispatcher hands on no variables of its own
// to the hook, by who is at the other end.
func leadsToJournal(stderr int) bool {
	if ours, err := journal.StderrIsJournalStream(); err == nil && ours {
		return true
	}
	peer, err := unix.Getpeername(stderr)
	if err != nil {
		return false
	}
	address, ok := peer.(*unix.SockaddrUnix)
	return ok && address.Name == lineSocket
}
