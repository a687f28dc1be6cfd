package journal

import (
	"io"
	"log/slog"
	"os"

	"github.com/coreos/go-systemd/v22/journal"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// Sockets of journald: for entries and for lines.
const (
	entrySocket = "/run/systemd/journal/socket"
	lineSocket  = "/run/systemd/journal/stdout"
)

// NewLogger returns a logger that writes to the journal if stderr is connected to it, as entries of
// the program called identifier. Otherwise it writes key=value lines with the time to stderr.
func NewLogger(stderr io.Writer, identifier string, level slog.Leveler) *slog.Logger {
	if termtext.Raw(stderr) == io.Writer(os.Stderr) && leadsToJournal(unix.Stderr) {
		return slog.New(newHandler(&sender{socket: entrySocket, stderr: unix.Stderr, fd: -1}, identifier, ownUnit(), level))
	}
	return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
}

// leadsToJournal reports whether stderr is connected to the journal. It compares the device and
// inode in JOURNAL_STREAM with those of stderr, because terminals of a desktop session inherit the
// variable too (systemd.exec(5)). nm-dispatcher does not pass the variable to the hook, so it also
// checks the peer of the socket.
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
