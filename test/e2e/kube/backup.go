package kube

import (
	"context"
	"fmt"
	"os"
)

const etcdDir = "etcd"

// Backup is a copy of all that etcd held at a time.
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

// Restore puts a copy back, and starts the control plane again: resource versions are smaller than those that clients have seen.
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
