package kube

import (
	"context"
	"fmt"
	"os"
)

const etcdDir = "etcd"

// Backup is a copy of etcd's data.
type Backup struct{ dir string }

// Backup stops the control plane, copies etcd's files, and starts it again.
func (c *Cluster) Backup(ctx context.Context) (Backup, error) {
	c.StopAll()
	dir, err := os.MkdirTemp(c.dir, "backup-")
	if err != nil {
		return Backup{}, err
	}
	if err := os.CopyFS(dir, os.DirFS(c.path(etcdDir))); err != nil {
		return Backup{}, fmt.Errorf("backing up etcd: %w", err)
	}
	return Backup{dir}, c.StartAll(ctx)
}

// Restore restores a copy and restarts the control plane. Resource versions are then lower than
// those that clients have seen.
func (c *Cluster) Restore(ctx context.Context, b Backup) error {
	c.StopAll()
	if err := os.RemoveAll(c.path(etcdDir)); err != nil {
		return err
	}
	if err := os.CopyFS(c.path(etcdDir), os.DirFS(b.dir)); err != nil {
		return fmt.Errorf("restoring etcd: %w", err)
	}
	return c.StartAll(ctx)
}
