package kube

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// startTimeout bounds the start of a program. On an idle machine etcd needs 0.5 s and
// kube-apiserver 3 s.
const startTimeout = 2 * time.Minute

// choosePorts chooses free ports below those that the kernel uses for connections
// (net.ipv4.ip_local_port_range, 32768 and up), so that a server that was down for a while finds
// its port free.
func (c *Cluster) choosePorts() error {
	for _, port := range []*int{&c.ports.etcd, &c.ports.etcdPeer, &c.ports.api, &c.ports.controllers, &c.ports.scheduler} {
		l, err := listenBelow(32768)
		if err != nil {
			return err
		}
		defer l.Close() // after all of them are chosen
		*port = l.Addr().(*net.TCPAddr).Port
	}
	return nil
}

func listenBelow(end int) (net.Listener, error) {
	const first, attempts = 20000, 100
	var err error
	for range attempts {
		var l net.Listener
		if l, err = net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(end-first))); err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("looking for a free port: %w", err)
}

// StartEtcd starts etcd with the data in its directory and returns when it is ready. It does
// nothing if etcd is running.
func (c *Cluster) StartEtcd(ctx context.Context) error {
	if c.etcd != nil {
		return nil
	}
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", c.ports.etcd), fmt.Sprintf("http://127.0.0.1:%d", c.ports.etcdPeer)
	var err error
	c.etcd, err = lab.Beside(lab.Command{Argv: []string{
		c.program("etcd"),
		"--data-dir=" + c.path(etcdDir),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		"--unsafe-no-fsync", // no data outlives the test
		"--log-level=warn",
	}})
	if err != nil {
		return err
	}
	return await(ctx, c.etcd, http.DefaultClient, client+"/health")
}

// StartAPI starts kube-apiserver and returns when it is ready. It does nothing if kube-apiserver is
// running.
func (c *Cluster) StartAPI(ctx context.Context) error {
	if c.api != nil {
		return nil
	}
	var err error
	c.api, err = lab.Beside(lab.Command{Argv: append([]string{
		c.program("kube-apiserver"),
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", c.ports.etcd),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.ports.api),
		"--advertise-address=" + advertised,
		"--service-cluster-ip-range=" + ServiceCIDR4 + "," + ServiceCIDR6,
		"--client-ca-file=" + c.path("ca.crt"),
		"--tls-cert-file=" + c.path("server.crt"), "--tls-private-key-file=" + c.path("server.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.path("server.crt"), "--service-account-signing-key-file=" + c.path("server.key"),
		"--authorization-mode=Node,RBAC",
		"--disable-admission-plugins=ServiceAccount", // the fixtures' pods have no service account
	}, c.auditFlags()...)})
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(c.admin)
	if err != nil {
		return err
	}
	return await(ctx, c.api, client, c.URL()+"/readyz")
}

// StartControllers starts the controllers that write Endpoints and EndpointSlices and empty deleted
// namespaces, and those of the Config. It returns when kube-controller-manager is ready, which may
// be before the controllers have written anything: see AwaitEndpoints. It does nothing if they are
// running.
func (c *Cluster) StartControllers(ctx context.Context) error {
	if c.controllers != nil {
		return nil
	}
	names := append([]string{"endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller", "namespace-controller"}, c.config.Controllers...)
	var err error
	c.controllers, err = c.startBesideAPI(
		ctx, "kube-controller-manager", c.ports.controllers,
		"--controllers="+strings.Join(names, ","), "--root-ca-file="+c.path("ca.crt"),
		"--endpointslice-updates-batch-period=0s", "--endpoint-updates-batch-period=0s",
	)
	return err
}

// StartScheduler starts kube-scheduler, which binds pods to nodes, and returns when it is ready. It
// does nothing if kube-scheduler is running.
func (c *Cluster) StartScheduler(ctx context.Context) error {
	if c.scheduler != nil {
		return nil
	}
	var err error
	c.scheduler, err = c.startBesideAPI(ctx, "kube-scheduler", c.ports.scheduler)
	return err
}

// startBesideAPI starts a program that works on the API's objects with all rights, and returns when
// it is ready. The process is nil if it did not start.
func (c *Cluster) startBesideAPI(ctx context.Context, program string, port int, flags ...string) (*lab.Process, error) {
	p, err := lab.Beside(lab.Command{Argv: append([]string{
		c.program(program),
		"--kubeconfig=" + c.path("admin.kubeconfig"),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--leader-elect=false",
	}, flags...)})
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		return p, err
	}
	return p, await(ctx, p, client, fmt.Sprintf("https://127.0.0.1:%d/healthz", port))
}

// KillAPI stops kube-apiserver like a crash: connections are reset without notice.
func (c *Cluster) KillAPI() {
	c.api.Kill()
	c.api = nil
}

// StopAPI stops kube-apiserver like its service manager.
func (c *Cluster) StopAPI() {
	c.api.Stop()
	c.api = nil
}

// APIPID returns the process ID of kube-apiserver.
func (c *Cluster) APIPID() int { return c.api.PID() }

// await waits until a program reports that it is healthy.
func await(ctx context.Context, p *lab.Process, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := ask(ctx, client, url)
		switch {
		case err == nil:
			return nil
		case !p.Running():
			return fmt.Errorf("it ended:\n%s", p.Output())
		case ctx.Err() != nil:
			return fmt.Errorf("%w\n%s", err, p.Output())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func ask(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(url + ": " + response.Status)
	}
	return nil
}

// writeServerFiles writes kube-apiserver's files.
func (c *Cluster) writeServerFiles() error {
	server, err := c.authority.server()
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"ca.crt": c.authority.pem, "server.crt": server.certificate, "server.key": server.key,
	} {
		if err := os.WriteFile(c.path(name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
