package doctor

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/forward"
)

const (
	// littleRoom is in octets what is little for files of some KiB, and one of some MiB (the cluster's snapshot).
	littleRoom   = 64 << 20
	noRoom       = 1 << 20
	littleInodes = 64
)

// checkStorage judges the directories that must be written: whose they are, and what room they have.
func checkStorage(s Snapshot) []Finding {
	var found []Finding
	var seen []string
	for _, d := range s.Storage {
		if errors.Is(d.Err, os.ErrPermission) {
			continue // Unseen says so
		}
		if !d.Exists {
			continue // who needs it makes it
		}
		seen = append(seen, d.Path)
		found = append(found, d.judge()...)
	}
	if len(seen) == 0 {
		return nil
	}
	return orFine(found, "room and rights: %s", strings.Join(seen, ", "))
}

func (d Storage) judge() []Finding {
	var found []Finding
	if d.Want != "" && d.Owner != d.Want {
		found = append(found, fail(fmt.Sprintf("%s is %s's, and %s has to write there", d.Path, d.Owner, d.Want), "chown "+d.Want+" "+d.Path))
	}
	if d.Mode&0o002 != 0 {
		found = append(found, warn(fmt.Sprintf("%s has mode %04o: everybody may write there", d.Path, d.Mode), "chmod o-w "+d.Path))
	}
	switch {
	case d.ReadOnly:
		found = append(found, fail(d.Path+" is on a file system that is mounted read-only: nothing is kept", "mount -o remount,rw, or see in the kernel's log why it is so"))
	case d.Free < noRoom || !d.NoInodes && d.Inodes == 0:
		found = append(found, fail(fmt.Sprintf("%s has no room: %d KiB, %d files are left", d.Path, d.Free>>10, d.Inodes), "make room: df -h "+d.Path+"; df -i "+d.Path))
	case d.Free < littleRoom || !d.NoInodes && d.Inodes < littleInodes:
		found = append(found, warn(fmt.Sprintf("%s has little room: %d MiB, %d files are left", d.Path, d.Free>>20, d.Inodes), "make room: df -h "+d.Path+"; df -i "+d.Path))
	}
	return found
}

// checkDescriptors judges whether the daemon may open as many files as its configuration can ask for.
func checkDescriptors(s Snapshot) []Finding {
	if s.Descriptors == 0 {
		return nil
	}
	need := uint64(forward.SocketsPerQuestion * s.Host.State.Config.DNSForwardMax)
	if s.Descriptors < need {
		return []Finding{warn(fmt.Sprintf("the daemon may open %d files, and %d queries that wait (dnsForwardMax) take up to %d: beyond that they are refused", s.Descriptors, s.Host.State.Config.DNSForwardMax, need),
			fmt.Sprintf("LimitNOFILE=%d in a drop-in: systemctl edit node-dns", need+need/10))}
	}
	return fine("the daemon may open %d files", s.Descriptors)
}
