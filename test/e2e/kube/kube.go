// Package kube runs a Kubernetes control plane on loopback: etcd, kube-apiserver and, if a test
// needs them, kube-controller-manager and kube-scheduler. They are the real programs, built from
// their Go modules by scripts/test-kube.
//
// The package is in a separate module, because it depends on all of Kubernetes. It has no kubelet:
// the pods of fixtures have the status there.
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

// Service networks. They contain the fixtures' addresses. The first IPv4 address is the API's own
// Service.
const (
	ServiceCIDR4 = "10.96.0.0/12"
	ServiceCIDR6 = "fd00:10:96::/112"
)

// ServiceAddr is the address of the API's own Service.
const ServiceAddr = "10.96.0.1"

// advertised is the API server's address in its endpoint. It must not be loopback. The API server
// does not listen there.
const advertised = "192.0.2.10"

// Config configures a Cluster.
type Config struct {
	Programs    string   // directory of etcd, kube-apiserver, kube-controller-manager and kube-scheduler
	Controllers []string // for StartControllers, besides its own
	Audit       bool     // whether kube-apiserver records its requests: see Cluster.Requests
}

// Cluster is a running control plane. Its methods are safe for concurrent use, except those that
// stop or start its parts.
type Cluster struct {
	config    Config
	dir       string // for all files of the control plane
	authority *authority
	ports     ports
	admin     *rest.Config
	dynamic   dynamic.Interface

	etcd, api, controllers, scheduler *lab.Process // nil if not started
}

type ports struct{ etcd, etcdPeer, api, controllers, scheduler int }

// Start starts a control plane with only its own initial objects, and returns when it is ready. The
// caller must close it.
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

// Endpoint returns the address and port of the endpoint of the API's own Service.
func (c *Cluster) Endpoint() string { return fmt.Sprintf("%s:%d", advertised, c.ports.api) }

// prepare creates everything that is needed before the first program starts.
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
	if err := c.writeAuditPolicy(); err != nil {
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

// StartAll starts etcd and kube-apiserver if they are not running, and returns when the API is
// ready.
func (c *Cluster) StartAll(ctx context.Context) error {
	if err := c.StartEtcd(ctx); err != nil {
		return err
	}
	return c.StartAPI(ctx)
}

// Close stops all programs and removes their files.
func (c *Cluster) Close() error {
	c.StopAll()
	return os.RemoveAll(c.dir)
}

// StopAll stops the running programs, etcd last, because kube-apiserver waits for it when it stops.
func (c *Cluster) StopAll() {
	for _, p := range []**lab.Process{&c.scheduler, &c.controllers, &c.api, &c.etcd} {
		if *p != nil {
			(*p).Stop()
			*p = nil
		}
	}
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *Cluster) program(name string) string { return filepath.Join(c.config.Programs, name) }
