package cluster

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// connection is the way to one API server, as the kubeconfig and the files that it names say at one moment.
type connection struct {
	api   *api
	files []file // what it was made of
	// cluster tells one cluster from another: a hash over the server's URL and the certificates that it is proved with.
	cluster [sha256.Size]byte
	close   func()
}

// file is a file as it was when it was read.
type file struct {
	path string
	data []byte
}

// connect reads the kubeconfig. It asks nothing of the server. client-go would read certificates anew by itself, with
// a goroutine for each transport that never ends (k8s.io/client-go transport/cache.go, DialerStopCh), keep the CA for good
// and send an old token for a minute (transport/token_source.go); here a new connection is made when any file has changed.
func connect(c Config) (*connection, error) {
	data := c.Contents
	if data == nil {
		var err error
		if data, err = os.ReadFile(c.Kubeconfig); err != nil {
			return nil, fmt.Errorf("reading the kubeconfig: %w", err)
		}
	}
	config, err := parseKubeconfig(c.Kubeconfig, data)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", c.Kubeconfig, err)
	}
	if os.Geteuid() == 0 && (config.ExecProvider != nil || config.AuthProvider != nil) {
		return nil, fmt.Errorf("using the kubeconfig %s: its credentials come from a plugin, which root does not run", c.Kubeconfig)
	}
	made := &connection{files: []file{{c.Kubeconfig, data}}}
	for _, path := range []string{config.CAFile, config.CertFile, config.KeyFile, config.BearerTokenFile} {
		if path == "" {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil && path == config.BearerTokenFile && config.BearerToken != "" {
			continue // client-go sends the other token
		}
		if err != nil {
			return nil, fmt.Errorf("reading what the kubeconfig %s names: %w", c.Kubeconfig, err)
		}
		made.files = append(made.files, file{path, data})
	}
	if err := made.use(config, c); err != nil {
		return nil, fmt.Errorf("using the kubeconfig %s: %w", c.Kubeconfig, err)
	}
	return made, nil
}

// parseKubeconfig reads data, which is from path: what it names is relative to that.
func parseKubeconfig(path string, data []byte) (*rest.Config, error) {
	parsed, err := clientcmd.Load(data)
	if err != nil {
		return nil, err
	}
	for _, cluster := range parsed.Clusters {
		cluster.LocationOfOrigin = path
	}
	for _, user := range parsed.AuthInfos {
		user.LocationOfOrigin = path
	}
	if err := clientcmd.ResolveLocalPaths(parsed); err != nil {
		return nil, err
	}
	if len(parsed.Clusters) == 0 { // clientcmd would look for the service account of a pod
		return nil, errors.New("it names no cluster")
	}
	return clientcmd.NewDefaultClientConfig(*parsed, &clientcmd.ConfigOverrides{}).ClientConfig()
}

func (made *connection) use(config *rest.Config, c Config) error {
	if err := rest.LoadTLSFiles(config); err != nil {
		return err
	}
	race := c.race
	if race == nil {
		race = &racer{lookup: c.Lookup, dial: c.Dial}
	}
	config.Dial = race.Dial
	if config.Proxy == nil {
		// With a function here client-go does not keep the transport for good in a cache of its own.
		config.Proxy = http.ProxyFromEnvironment
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	client.CheckRedirect = refuseRedirect
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return err
	}
	made.api = &api{client: client, race: race, server: &url.URL{Scheme: server.Scheme, Host: server.Host, Path: server.Path}, pulse: newPulse()}
	made.api.agent, made.api.told = "node-dns/"+c.Version, c.Requested
	made.cluster = sha256.Sum256(slices.Concat([]byte(server.String()), []byte{0}, config.CAData))
	made.close = func() { utilnet.CloseIdleConnectionsFor(client.Transport) }
	return nil
}

// refuseRedirect makes a redirect an answer like any other (see readStatus). client-go's transport adds the credentials to
// every request, so a followed redirect sends them to whatever host it names, even in the clear. The API server redirects
// none of our requests.
func refuseRedirect(*http.Request, []*http.Request) error {
	return http.ErrUseLastResponse
}

// changed reports whether any file is otherwise than when it was read. One that is gone, as for a moment while it is
// replaced, is not: what was read is still what we have.
func (made *connection) changed() bool {
	return slices.ContainsFunc(made.files, func(f file) bool {
		data, err := os.ReadFile(f.path)
		return err == nil && !bytes.Equal(data, f.data)
	})
}

// phaseOf is the phase of a Watcher that cannot connect.
func phaseOf(err error) Phase {
	var path *fs.PathError
	if errors.As(err, &path) && errors.Is(err, fs.ErrNotExist) {
		return NoKubeconfig
	}
	return Unreadable
}
