package atomicfile

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// labelName is where SELinux keeps a file's security context (selinux(8)).
const labelName = "security.selinux"

// copyLabel gives the file or link at to the SELinux label of the one at from.
// Nothing is done when from does not exist or has no label, or when to has the
// same already.
//
// A file created in /etc is etc_t, while resolv.conf is net_conf_t: without this
// a replaced resolv.conf is out of reach for confined programs (the successor on
// OpenShift 4 lost the label by mv, machine-config-operator commit b51629601).
func copyLabel(from, to string) error {
	want, err := Label(from)
	if err != nil || want == "" {
		return err
	}
	have, err := Label(to)
	if err != nil || have == want {
		return err
	}
	err = unix.Lsetxattr(to, labelName, []byte(want), 0)
	if err != nil && !meaningless(have, err) {
		return fmt.Errorf("setting SELinux label %q: %w", want, err)
	}
	return nil
}

// meaningless reports whether a label that could not be set means nothing: with
// SELinux every new file has one, so where this one has none SELinux is not
// running, and the old label is left from a system where it was.
func meaningless(have string, err error) bool {
	return have == "" && (errors.Is(err, unix.EPERM) || unsupported(err))
}

// Label returns the SELinux label of the file or link at path, "" when it has none.
func Label(path string) (string, error) {
	// A context has at most a page: the limit of the kernel's own interface.
	buf := make([]byte, 4096)
	n, err := unix.Lgetxattr(path, labelName, buf)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOENT) || unsupported(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading SELinux label of %s: %w", path, err)
	}
	return string(buf[:n]), nil
}

func unsupported(err error) bool {
	return errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)
}
