package cluster

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/transport"

	"github.com/node-dns/node-dns/internal/kube/kubeconfig"
)

// connection is a way to reach one API server, made from one version of the kubeconfig and the
// files that it names.
type connection struct {
	api   *api
	files []file // inputs
	// cluster identifies the cluster: a hash of the server's URL and its CA certificates.
	cluster [sha256.Size]byte
	close   func()
}

// file is a file and its content when it was read.
type file struct {
	path string
	data []byte
}

// connect reads the kubeconfig and the files that it names. It sends no request. client-go's
// transport gets the contents, not the paths. With paths it would reload the files itself, with a
// goroutine per transport that never ends (k8s.io/client-go transport/cache.go, DialerStopCh), keep
// the CA forever, and send an old token for a minute (transport/token_source.go). Here a changed
// file makes a new connection.
func connect(c Config) (*connection, error) {
	data := c.Contents
	if data == nil {
		var err error
		if data, err = os.ReadFile(c.Kubeconfig); err != nil {
			return nil, fmt.Errorf("reading the kubeconfig: %w", err)
		}
	}
	made := &connection{files: []file{{c.Kubeconfig, data}}}
	config, err := kubeconfig.Flatten(c.Kubeconfig, data, func(path string) ([]byte, error) {
		data, err := os.ReadFile(path)
		if err == nil {
			made.files = append(made.files, file{path, data})
		}
		return data, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", c.Kubeconfig, err)
	}
	if err := made.use(config, c); err != nil {
		return nil, fmt.Errorf("using the kubeconfig %s: %w", c.Kubeconfig, err)
	}
	return made, nil
}

func (made *connection) use(config kubeconfig.Config, c Config) error {
	race := c.race
	if race == nil {
		race = &racer{lookup: c.Lookup, dial: c.Dial}
	}
	way, err := newWay(config, race.Dial)
	if err != nil {
		return err
	}
	carrier, err := transport.New(&way.transport)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: carrier, CheckRedirect: refuseRedirect}
	made.api = &api{client: client, race: race, server: way.server, pulse: newPulse()}
	made.api.agent, made.api.told = "node-dns/"+c.Version, c.Requested
	made.cluster = sha256.Sum256(slices.Concat([]byte(way.server.String()), []byte{0}, way.transport.TLS.CAData))
	made.close = func() { utilnet.CloseIdleConnectionsFor(client.Transport) }
	return nil
}

// refuseRedirect returns a redirect to the caller like any other response (see readStatus).
// client-go's transport adds the credentials to every request. Following a redirect would send them
// to any host that it names, even over plain HTTP. The API server does not redirect any request of
// ours.
func refuseRedirect(*http.Request, []*http.Request) error {
	return http.ErrUseLastResponse
}

// changed reports whether the content of any file has changed. A missing file is not a change: it
// may be missing for a moment while it is replaced, and the content that was read still holds.
func (made *connection) changed() bool {
	return slices.ContainsFunc(made.files, func(f file) bool {
		data, err := os.ReadFile(f.path)
		return err == nil && !bytes.Equal(data, f.data)
	})
}

// phaseOf returns the phase of a Watcher that cannot use its kubeconfig.
func phaseOf(err error, kubeconfig string) Phase {
	var path *fs.PathError
	if errors.As(err, &path) && path.Path == kubeconfig && errors.Is(err, fs.ErrNotExist) {
		return NoKubeconfig
	}
	return Unreadable
}
