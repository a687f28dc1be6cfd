package kubewire

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// paths are the API paths of each kind.
var paths = map[Kind]string{
	Services:       "/api/v1/services",
	EndpointSlices: "/apis/discovery.k8s.io/v1/endpointslices",
	Endpoints:      "/api/v1/endpoints",
	Namespaces:     "/api/v1/namespaces",
	Pods:           "/api/v1/pods",
}

// serverWith returns a server with the objects of a fixture of package zone.
func serverWith(t testing.TB, file string) *kubetest.Server {
	t.Helper()
	text, err := os.ReadFile("../../dns/zone/testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	s := kubetest.New()
	s.Apply(string(text))
	return s
}

// get returns the response to a request, which must succeed.
func get(t testing.TB, s *kubetest.Server, path, accept string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w
}

// readList lists the objects of kind.
func readList(t testing.TB, s *kubetest.Server, kind Kind, accept string) (objects []Object, version uint64) {
	t.Helper()
	w := get(t, s, paths[kind]+"?resourceVersion=0", accept)
	format, err := ParseFormat(w.Header().Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	version, err = NewDecoder(kind).List(w.Body, format, func(o Object) error {
		objects = append(objects, o)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return objects, version
}
