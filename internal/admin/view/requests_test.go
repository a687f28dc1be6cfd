package view

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/node-dns/node-dns/internal/kube/cluster"
)

// TestRequestCount proves that requests are counted by code, method and host, and together above
// the limit.
func TestRequestCount(t *testing.T) {
	var c requestCount
	if n := len(c.read()); n != 0 {
		t.Errorf("got %d kinds without requests", n)
	}
	for _, code := range []int{200, 200, 0, 503, 999, -1, 99, 600} {
		c.Add(cluster.Request{Method: "GET", Host: "api:6443", Code: code})
	}
	c.Add(cluster.Request{Method: "POST", Host: "\xff", Code: 201})
	of := func(code string) APIRequest {
		return APIRequest{Code: code, Method: "GET", Host: "api:6443"}
	}
	want := map[APIRequest]uint64{
		of("200"): 2, of("<error>"): 1, of("503"): 1, of("other"): 4,
		{Code: "201", Method: "POST", Host: "\uFFFD"}: 1,
	}
	if diff := cmp.Diff(want, c.read()); diff != "" {
		t.Error(diff)
	}
	for i := range 3 * maxRequests {
		c.Add(cluster.Request{Method: "GET", Host: fmt.Sprintf("api-%d:6443", i), Code: 200})
		c.Add(cluster.Request{Method: "GET", Host: "api:6443", Code: 200})
	}
	got := c.read()
	rest := got[APIRequest{Code: "other", Method: "other", Host: "other"}]
	if len(got) != maxRequests+1 || rest != 2*maxRequests+uint64(len(want)) || got[of("200")] != 2+3*maxRequests {
		t.Errorf("got %d kinds, %d counted together, %d of the first", len(got), rest, got[of("200")])
	}
}
