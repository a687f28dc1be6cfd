package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Cached returns a directory that fill has filled, once per key. All test processes of this user
// share it. The key must include everything that the content depends on.
func Cached(key string, fill func(dir string) error) (string, error) {
	sum := sha256.Sum256([]byte(key))
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	base = filepath.Join(base, "node-dns-test")
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", err
	}
	lock, err := os.Create(filepath.Join(base, "lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close() // also releases the lock
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("locking %s: %w", lock.Name(), err)
	}
	dir := filepath.Join(base, hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(dir); err == nil {
		now := time.Now()
		return dir, os.Chtimes(dir, now, now)
	}
	if err := removeOld(base); err != nil {
		return "", err
	}
	partial, err := os.MkdirTemp(base, "partial-")
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.Chmod(partial, 0o755), fill(partial)); err != nil {
		return "", errors.Join(err, os.RemoveAll(partial))
	}
	return dir, os.Rename(partial, dir)
}

// removeOld removes directories that no test has used for a day.
func removeOld(base string) error {
	entries, err := os.ReadDir(base)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && time.Since(info.ModTime()) > 24*time.Hour {
			if err := os.RemoveAll(filepath.Join(base, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
