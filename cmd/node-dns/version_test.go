package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestRevisionIsShown: the daemon's metrics contain the commit that TestMain sets.
func TestRevisionIsShown(t *testing.T) {
	address := dnstest.FreePort(t).String()
	p := start(t, `mkdir -p $ROOT/etc/node-dns && echo "metrics: {address: '$METRICS'}" >$ROOT/etc/node-dns/node-dns.yaml &&
		exec node-dns --root $ROOT serve --listen 127.0.0.1:0 --upstream 192.0.2.1`, "METRICS="+address)
	body := ""
	p.await("metrics are shown", func() bool {
		response, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		body = string(text)
		return err == nil
	})
	const want = `,revision="c0ffee-dirty",version="dev"} 1`
	if _, info, _ := strings.Cut(body, "\nnodedns_build_info{"); !strings.Contains(strings.SplitN(info, "\n", 2)[0], want) {
		t.Errorf("want %s in\n%s", want, body)
	}
	p.signal(unix.SIGTERM)
	p.end()
}
