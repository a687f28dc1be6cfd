package main

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// api is the Kubernetes API that node-dns watches: the cluster of the workload pods. Its zero value
// is ready for use. Its methods must not be called concurrently.
type api struct {
	start    sync.Once
	server   *kubetest.Server
	err      error
	cleanups []func()
}

// kubeconfig returns a client's kubeconfig. The first call starts the API server.
func (a *api) kubeconfig() ([]byte, error) {
	a.start.Do(func() {
		defer func() {
			if failure, failed := recover().(apiFailure); failed {
				a.err = failure
			}
		}()
		a.server = kubetest.NewServer(a)
		a.server.Apply(manifest())
	})
	if a.err != nil {
		return nil, a.err
	}
	return a.server.Kubeconfig(), nil
}

func (a *api) close() {
	for _, f := range a.cleanups {
		f()
	}
}

// manifest returns the services that the queries name.
func manifest() string {
	var b strings.Builder
	for i := range namespaces {
		fmt.Fprintf(&b, "\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: ns-%d}}", i)
	}
	for i := range services {
		fmt.Fprintf(&b, "\n---\n{apiVersion: v1, kind: Service, metadata: {name: svc-%d, namespace: ns-%d}, "+
			"spec: {clusterIP: 172.30.%d.%d, ports: [{name: http, port: 80}]}}", i, i%namespaces, i>>8, i&255)
	}
	return b.String()
}

// apiFailure is a fatal error of kubetest.
type apiFailure struct{ error }

// The methods of kubetest.TB.

func (a *api) Helper() {}

func (a *api) Cleanup(f func()) { a.cleanups = append(a.cleanups, f) }

func (a *api) Fatalf(format string, args ...any) {
	panic(apiFailure{errors.New("playing a Kubernetes API: " + fmt.Sprintf(format, args...))})
}
