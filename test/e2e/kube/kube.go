// Package kube is a Kubernetes control plane on loopback: etcd, kube-apiserver and, where a test needs it,
// kube-controller-manager. They are the real programs, built from their Go modules by scripts/test-kube.
//
// It is a module apart from the product's, because it asks for all of Kubernetes. There is no kubelet: pods have the
// status that their fixture says.
package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// The networks of services. The fixtures' addresses lie in them, and the first IPv4 address is the API's own Service.
const (
	ServiceCIDR4 = "10.96.0.0/12"
	ServiceCIDR6 = "fd00:10:96::/112"
)

// advertised is the API server's endpoint as Services show it. It must not be loopback, and nothing connects to it.
const advertised = "192.0.2.10"

// Config is what a Cluster is made of.
type Config struct {
	Programs string // the directory of etcd, kube-apiserver and kube-controller-manager
}

// Cluster is a running control plane. Its methods are safe for concurrent use, but those that stop and start its parts.
type Cluster struct {
	config    Config
	dir       string // everything that it writes
	authority *authority
	ports     ports
	admin     *rest.Config
	dynamic   dynamic.Interface

	etcd, api, controllers *lab.Process // nil: not started
}

type ports struct{ etcd, etcdPeer, api, controllers int }

// Start starts a control plane, empty but for what it makes itself, and returns when it is ready. The caller closes it.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "node-dns-kube-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{config: config, dir: dir}
	if err := cmp.Or(c.prepare(), c.StartAll(ctx)); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a control plane: %w", err), c.Close())
	}
	return c, nil
}

// prepare makes everything that is there before the first program starts.
func (c *Cluster) prepare() error {
	var err error
	if c.authority, err = newAuthority(); err != nil {
		return err
	}
	if err := c.choosePorts(); err != nil {
		return err
	}
	if err := c.writeServerFiles(); err != nil {
		return err
	}
	kubeconfig, err := c.Kubeconfig(Admin())
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.path("admin.kubeconfig"), kubeconfig, 0o600); err != nil {
		return err
	}
	return c.connect(kubeconfig)
}

// StartAll starts etcd and kube-apiserver where they do not run, and returns when the API is ready.
func (c *Cluster) StartAll(ctx context.Context) error {
	if err := c.StartEtcd(ctx); err != nil {
		return err
	}
	return c.StartAPI(ctx)
}

// Close stops everything and removes its files.
func (c *Cluster) Close() error {
	c.StopAll()
	return os.RemoveAll(c.dir)
}

// StopAll stops what runs, etcd last: kube-apiserver waits for it when it ends.
func (c *Cluster) StopAll() {
	for _, p := range []**lab.Process{&c.controllers, &c.api, &c.etcd} {
		if *p != nil {
			(*p).Stop()
			*p = nil
		}
	}
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *Cluster) program(name string) string { return filepath.Join(c.config.Programs, name) }
