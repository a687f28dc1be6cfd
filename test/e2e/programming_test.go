package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

// TestProgrammingLatency: slices that endpointslice-controller writes for a new Service and for a
// pod that becomes ready are timed, each once. The removal of a pod is not timed, because the
// controller sets no time for it.
func TestProgrammingLatency(t *testing.T) {
	c := controlled.get(t)
	ns := namespace(t, "timed")
	create(t, c, ns)
	t.Cleanup(func() { remove(t, c, ns) })
	metrics := dnstest.FreePort(t).String()
	n := newNode(t, fmt.Sprintf("metrics: {address: %q}", metrics))
	n.credentials(c, kube.Reader())
	n.start()
	n.answers(kubernetesName, "A", "NOERROR A 10.96.0.1")
	// The controller rounds its times down to the second. Wait so that the next events do not
	// appear to be older than the start, or than the Service below.
	time.Sleep(time.Second)

	timed := func() float64 {
		return number(t, metrics, `nodedns_kubernetes_dns_programming_duration_seconds_count{service_kind="headless_with_selector"}`)
	}
	n.until("metrics are served", func() bool { return timed() == 0 })
	create(t, c, service(t, "timed", "db", "{clusterIP: None, selector: {app: db}, ports: [{name: http, port: 80}]}"))
	n.until("the new Service is timed", func() bool { return timed() == 1 })
	pod := object(t, `
apiVersion: v1
kind: Pod
metadata: {name: db-0, namespace: timed, labels: {app: db}, annotations: {lab/ip: 172.30.9.9}}
spec: {hostname: db-0, subdomain: db}
`)
	time.Sleep(time.Second)
	create(t, c, pod)
	const name = "db-0.db.timed.svc.cluster.local"
	n.answers(name, "A", "NOERROR A 172.30.9.9")
	n.until("its pod is timed", func() bool { return timed() == 2 })
	remove(t, c, pod)
	n.answers(name, "A", "NXDOMAIN")
	if got := timed(); got != 2 {
		t.Errorf("%v of 2 changes are timed", got)
	}
	for _, reason := range []string{"future", "past", "many"} {
		series := fmt.Sprintf("nodedns_kubernetes_dns_programming_untimed_total{reason=%q}", reason)
		if got := number(t, metrics, series); got != 0 {
			t.Errorf("%s is %v", series, got)
		}
	}
}

// number returns the value of a series in a scrape, or -1 if it is missing.
func number(t *testing.T, address, series string) float64 {
	t.Helper()
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		return -1 // not served yet
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), series+" "); ok {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	return -1
}
