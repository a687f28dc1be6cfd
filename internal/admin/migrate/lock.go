package migrate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/node-dns/node-dns/internal/hostdns"
)

// lockFile is held while a migration is under way. It is not the hook's own lock: that runs meanwhile.
const lockFile = "/run/node-dns-migrate.lock"

// lockPatience is how long another migration is waited for: it takes longer than anybody waits.
const lockPatience = 100 * time.Millisecond

// Lock keeps a second migration from beginning.
func Lock(ctx context.Context) (unlock func(), err error) {
	return lock(ctx, filepath.Join(root, lockFile))
}

func lock(ctx context.Context, path string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	release, err := hostdns.Lock(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("another migration is under way: %w", err)
	}
	return func() {
		os.Remove(path) // who waits for it fails soon
		release()
	}, nil
}

func makeDir(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	return nil
}
