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

// connect reads the kubeconfig and the files that it names. It asks nothing of the server. client-go's transport is given their
// contents: it would read them anew by itself, with a goroutine for each transport that never ends (k8s.io/client-go
// transport/cache.go, DialerStopCh), keep the CA for good and send an old token for a minute (transport/token_source.go); here
// a new connection is made when any file has changed.
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

// phaseOf is the phase of a Watcher that cannot connect by a kubeconfig.
func phaseOf(err error, kubeconfig string) Phase {
	var path *fs.PathError
	if errors.As(err, &path) && path.Path == kubeconfig && errors.Is(err, fs.ErrNotExist) {
		return NoKubeconfig
	}
	return Unreadable
}
