package atomicfile

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// labelName is the extended attribute of a file's SELinux context (selinux(8)).
const labelName = "security.selinux"

// copyLabel copies the SELinux label of the file or link at from to the one at to. It does nothing
// if from does not exist or has no label, or if to already has the same.
//
// A file created in /etc gets etc_t, but resolv.conf has net_conf_t. Without copyLabel, confined
// programs cannot read a replaced resolv.conf (on OpenShift 4, mv lost the label;
// machine-config-operator commit b51629601).
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

// meaningless reports whether the failure to set a label can be ignored. With SELinux every new
// file has a label. If this file has none, SELinux is not running, and the old label is left over
// from a system where it was.
func meaningless(have string, err error) bool {
	return have == "" && (errors.Is(err, unix.EPERM) || unsupported(err))
}

// Label returns the SELinux label of the file or link at path, or "" if it has none.
func Label(path string) (string, error) {
	// The kernel interface limits a context to one page.
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
