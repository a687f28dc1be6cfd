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

	"github.com/node-dns/node-dns/internal/nodeconfig"
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

type file struct {
	path string
	data []byte
}

// connect reads the kubeconfig and the files that it names. It sends no request. A changed file
// makes a new connection.
func connect(c Config) (*connection, error) {
	data := c.Contents
	if data == nil {
		var err error
		if data, err = os.ReadFile(c.Kubeconfig); err != nil {
			return nil, fmt.Errorf("reading the kubeconfig: %w", err)
		}
	}
	made := &connection{files: []file{{c.Kubeconfig, data}}}
	config, err := nodeconfig.FlattenKubeconfig(c.Kubeconfig, data, func(path string) ([]byte, error) {
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

func (made *connection) use(config nodeconfig.KubeContext, c Config) error {
	race := c.race
	if race == nil {
		race = &racer{lookup: c.Lookup, dial: c.Dial}
	}
	way, err := newWay(config, race.Dial)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: way.transport, CheckRedirect: refuseRedirect}
	made.api = &api{client: client, race: race, server: way.server, header: way.header, pulse: newPulse()}
	made.api.agent, made.api.told = "node-dns/"+c.Version, c.Requested
	made.cluster = sha256.Sum256(slices.Concat([]byte(way.server.String()), []byte{0}, way.ca))
	made.close = client.CloseIdleConnections
	return nil
}

// refuseRedirect returns a redirect to the caller like any other response (see readStatus).
// Following a redirect would send credentials to another port of its host, even over plain HTTP.
// The API server does not redirect any request of ours.
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
