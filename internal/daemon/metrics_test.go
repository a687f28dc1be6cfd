package daemon

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/golden"
	"github.com/node-dns/node-dns/internal/test/kubetest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// get requests a path from the daemon's metrics listener. Code 0 means no response.
func (r *running) get(address, path string, change ...func(*http.Request)) (code int, body string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range change {
		c(request)
	}
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// metric returns the lines of one metric in a scrape.
func (r *running) metric(address, path, name string) (lines []string) {
	r.t.Helper()
	_, body := r.get(address, path)
	for line := range strings.Lines(body) {
		if after, ok := strings.CutPrefix(line, name); ok && (after[0] == '{' || after[0] == ' ') {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// withMetrics starts a daemon that serves its metrics at the address.
func withMetrics(t *testing.T, files map[string]string, more string, changes ...func(*Config)) (r *running, address string) {
	t.Helper()
	address = dnstest.FreePort(t).String()
	files["/etc/node-dns/node-dns.yaml"] = fmt.Sprintf("metrics: {address: '%s'}\n%s", address, more)
	r = start(t, files, changes...)
	r.await("metrics are served", func() bool {
		code, _ := r.get(address, "/health")
		return code == http.StatusOK
	})
	return r, address
}

func TestMetricsLint(t *testing.T) {
	t.Parallel()
	r, address := withMetrics(t, map[string]string{}, "")
	code, body := r.get(address, "/metrics")
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// family is one metric family of a scrape.
type family struct {
	name, kind, help string
	labels           []string // nil if it has no value
}

// families returns the metric families of a scrape in order.
func families(t *testing.T, scrape string) []family {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	parsed, err := parser.TextToMetricFamilies(strings.NewReader(scrape))
	if err != nil {
		t.Fatal(err)
	}
	var all []family
	for _, name := range slices.Sorted(maps.Keys(parsed)) {
		f := family{name: name, kind: strings.ToLower(parsed[name].GetType().String()), help: parsed[name].GetHelp()}
		for _, m := range parsed[name].GetMetric() {
			f.labels = []string{}
			for _, pair := range m.GetLabel() {
				f.labels = append(f.labels, pair.GetName())
			}
		}
		all = append(all, f)
	}
	return all
}

// TestMetricsDocument: docs/reference/metrics.md lists every metric of a daemon that has used all
// features, with its labels. CoreDNS's prefix adds the metrics listed for it and changes nothing
// else.
func TestMetricsDocument(t *testing.T) {
	t.Parallel()
	scrapes := map[string][]family{}
	for _, namespace := range []string{"nodedns", "coredns"} {
		r, address := busyDaemon(t, namespace)
		_, body := r.get(address, "/metrics")
		for _, f := range families(t, body) {
			if name, ours := strings.CutPrefix(f.name, namespace+"_"); ours {
				f.name = name
				scrapes[namespace] = append(scrapes[namespace], f)
			}
		}
	}
	var list strings.Builder
	histogram := regexp.MustCompile(`_(duration_seconds|size_bytes)$`)
	row := func(prefix string, f family) {
		labels := ""
		if len(f.labels) > 0 {
			labels = "{" + strings.Join(f.labels, ",") + "}"
		}
		switch {
		case (f.kind == "histogram") != histogram.MatchString(f.name):
			t.Errorf("%s is a %s: the page says that exactly the histograms end in these words", f.name, f.kind)
		case (f.kind == "counter") != strings.HasSuffix(f.name, "_total"):
			t.Errorf("%s is a %s: the page says that exactly the counters end in _total", f.name, f.kind)
		}
		item := golden.Wrap(fmt.Sprintf("- `%s_%s%s`: %s", prefix, f.name, labels, f.help), 98)
		list.WriteString(strings.ReplaceAll(item, "\n", "\n  ") + "\n")
	}
	for _, f := range scrapes["nodedns"] {
		row("nodedns", f)
	}
	for _, f := range scrapes["coredns"] {
		same := func(other family) bool { return f.name == other.name }
		if !slices.ContainsFunc(scrapes["nodedns"], same) {
			row("coredns", f)
		}
	}
	const path = "../../docs/reference/metrics.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const head = "Others are gauges.\n\n"
	before, rest, ok := strings.Cut(string(page), head)
	_, after, found := strings.Cut(rest, "\n## ")
	if !ok || !found {
		t.Fatal("no list in " + path)
	}
	golden.Check(t, path, before+head+list.String()+"\n## "+after)
}

// TestProgrammingMetric: a change of a headless Service is counted under CoreDNS's name, label and
// buckets. Older objects are not counted. A change from a clock ahead of ours is counted
// separately.
func TestProgrammingMetric(t *testing.T) {
	t.Parallel()
	api := kubetest.NewServer(t)
	api.Apply(shop)
	slice := func(addr string, ago time.Duration) {
		api.Apply(kubetest.HeadlessSlice("shop", "db", "db-1", addr, time.Now().Add(-ago)))
	}
	slice("10.128.0.1", 0)
	for _, namespace := range []string{"nodedns", "coredns"} {
		t.Run(namespace, func(t *testing.T) {
			address := dnstest.FreePort(t).String()
			r := start(t, map[string]string{
				upstreamPath: "", kubeconfigPath: string(api.Kubeconfig()),
				"/etc/node-dns/node-dns.yaml": fmt.Sprintf("metrics: {address: '%s', namespace: %s}\n", address, namespace),
			})
			r.synced()
			name, kind := namespace+"_kubernetes_dns_programming_duration_seconds", `service_kind="headless_with_selector"`
			r.await("there is nothing to count", func() bool { return r.value(address, name+"_count", kind) == 0 })
			slice("10.128.0.2", 0)
			r.await("a change is counted", func() bool { return r.value(address, name+"_count", kind) == 1 })
			var bounds []string
			for _, line := range r.metric(address, "/metrics", name+"_bucket") {
				_, after, _ := strings.Cut(line, `le="`)
				bound, _, _ := strings.Cut(after, `"`)
				bounds = append(bounds, bound)
			}
			if len(bounds) != 21 || bounds[0] != "0.001" || bounds[1] != "0.002" || bounds[19] != "524.288" || bounds[20] != "+Inf" {
				t.Errorf("the buckets are %q", bounds)
			}
			untimed := namespace + "_kubernetes_dns_programming_untimed_total"
			slice("10.128.0.3", -time.Hour)
			r.await("a change from the future is counted separately", func() bool { return r.value(address, untimed, `reason="future"`) == 1 })
			slice("10.128.0.4", 24*time.Hour)
			r.await("a change from long ago is counted separately", func() bool { return r.value(address, untimed, `reason="past"`) == 1 })
			if n := r.value(address, name+"_count", kind); n != 1 {
				t.Errorf("%v are counted now", n)
			}
		})
	}
}

// busyDaemon starts a daemon that has a value for every metric: it has a cluster and two upstreams,
// one of which refuses.
func busyDaemon(t *testing.T, namespace string, changes ...func(*Config)) (r *running, address string) {
	t.Helper()
	site := dnstest.NewServer(t, siteRecords)
	api := kubetest.NewServer(t)
	api.Apply(shop)
	address = dnstest.FreePort(t).String()
	r = start(t, map[string]string{
		upstreamPath: upstreamFile(site), kubeconfigPath: string(api.Kubeconfig()),
		"/etc/node-dns/node-dns.yaml": fmt.Sprintf("dnsOverTLS: opportunistic\nintercept: [10.96.0.10]\nmetrics: {address: '%s', namespace: %s}\n", address, namespace),
	}, append(changes, func(c *Config) {
		c.TLSAddr = func(nameserver.Server) (netip.AddrPort, bool) { return site.Addr(), true } // an address without TLS
	})...)
	r.synced()
	r.exchange(r.address(), "www.example.com.")
	site.SetFaultsFor("bad.example.com.", dnstest.Faults{Rcode: dns.RcodeServerFailure})
	dnstest.Exchange(t, r.address(), "bad.example.com.", dns.TypeA)
	r.await("metrics are served", func() bool {
		code, _ := r.get(address, "/health")
		return code == http.StatusOK
	})
	return r, address
}

// value returns the value of the only line of a scrape with this name and these labels, in any
// order, or -1 if there is none.
func (r *running) value(address, name string, labels ...string) float64 {
	r.t.Helper()
	found := -1.0
	for _, line := range r.metric(address, "/metrics", name) {
		if slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(line, label) }) {
			continue
		}
		v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil || found >= 0 {
			r.t.Fatalf("%s %v: a second line or no number: %s", name, labels, line)
		}
		found = v
	}
	return found
}

// TestMetricsCount: each query is counted by its type, its answer, and the source of the answer.
func TestMetricsCount(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, siteRecords)
	r, address := withMetrics(t, map[string]string{upstreamPath: upstreamFile(site)}, "")
	at := r.address()
	ask := func(name string, qtype uint16, network string, times int) {
		c := dns.Client{Net: network, Timeout: 10 * time.Second}
		for range times {
			if _, _, err := c.Exchange(new(dns.Msg).SetQuestion(name, qtype), at.String()); err != nil {
				t.Fatal(err)
			}
		}
	}
	ask("www.example.com.", dns.TypeA, "udp", 7)            // one miss and six hits
	ask("www.example.com.", dns.TypeAAAA, "tcp", 3)         // one miss and two hits without records
	ask("nowhere.example.com.", dns.TypeSRV, "udp", 4)      // one miss and three hits for NXDOMAIN
	ask("web.shop.svc.cluster.local.", dns.TypeA, "udp", 2) // unknown cluster
	type row struct {
		name   string
		labels []string
		want   float64
	}
	udp, tcp := `proto="udp"`, `proto="tcp"`
	rows := []row{
		{"nodedns_dns_requests_total", []string{udp, `type="A"`, `family="1"`}, 9},
		{"nodedns_dns_requests_total", []string{udp, `type="AAAA"`}, 0},
		{"nodedns_dns_requests_total", []string{tcp, `type="AAAA"`}, 3},
		{"nodedns_dns_requests_total", []string{udp, `type="SRV"`}, 4},
		{"nodedns_dns_requests_total", []string{udp, `type="other"`}, 0},
		{"nodedns_dns_responses_total", []string{`rcode="NOERROR"`}, 10},
		{"nodedns_dns_responses_total", []string{`rcode="NXDOMAIN"`}, 4},
		{"nodedns_dns_responses_total", []string{`rcode="SERVFAIL"`}, 2},
		{"nodedns_dns_request_duration_seconds_count", nil, 16},
		{"nodedns_dns_request_size_bytes_count", []string{udp}, 13},
		{"nodedns_dns_response_size_bytes_count", []string{tcp}, 3},
		{"nodedns_cache_hits_total", []string{`type="success"`}, 6},
		{"nodedns_cache_hits_total", []string{`type="denial"`}, 5},
		{"nodedns_cache_misses_total", nil, 3},
		{"nodedns_cache_requests_total", nil, 14},
		{"nodedns_cache_entries", []string{`type="success"`}, 1},
		{"nodedns_cache_entries", []string{`type="denial"`}, 2},
		{"nodedns_upstream_requests_total", []string{`to="` + site.Addr().String() + `"`}, 3},
		{"nodedns_proxy_request_duration_seconds_count", []string{`rcode="NOERROR"`}, 2},
		{"nodedns_proxy_request_duration_seconds_count", []string{`rcode="NXDOMAIN"`}, 1},
		{"nodedns_upstream_up", []string{`source="last-good"`}, 1},
		{"nodedns_ready", nil, 1},
		{"nodedns_resolvconf_ours", nil, 0},
		{"nodedns_panics_total", nil, 0},
	}
	r.await("the last response is counted", func() bool { return r.value(address, "nodedns_dns_request_duration_seconds_count") == 16 })
	for _, row := range rows {
		if got := r.value(address, row.name, row.labels...); got != row.want {
			t.Errorf("%s %v: %v, expected %v", row.name, row.labels, got, row.want)
		}
	}
}

// TestMetricsStayBounded: queries for many names and types do not add lines to a scrape, and no
// query name appears in it.
func TestMetricsStayBounded(t *testing.T) {
	site := dnstest.NewServer(t, siteRecords)
	r, address := withMetrics(t, map[string]string{upstreamPath: upstreamFile(site)}, "")
	flood := func(from, to int) {
		conn, err := net.Dial("udp", r.address().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Minute))
		buf := make([]byte, 4096)
		for i := from; i < to; i++ {
			m := new(dns.Msg).SetQuestion(fmt.Sprintf("evil-%d\\\"\\010.example.com.", i), uint16(i))
			m.Opcode, m.Question[0].Qclass = i%16, uint16(1+i%5)
			if m.Opcode > 5 {
				m.Opcode, m.Question[0].Qclass = 0, dns.ClassINET
			}
			wire, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write(wire); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Read(buf); err != nil {
				t.Fatalf("query %d: %v", i, err)
			}
		}
	}
	lines := func() int {
		_, body := r.get(address, "/metrics")
		if strings.Contains(body, "evil") {
			t.Error("a query name is in the scrape")
		}
		n := 0
		for line := range strings.Lines(body) {
			if strings.HasPrefix(line, "nodedns_") {
				n++
			}
		}
		return n
	}
	const first = 200
	more := 10_000
	if testing.Short() {
		more = 2_000
	}
	flood(1, first)
	before := lines()
	flood(first, first+more)
	if after := lines(); after != before || before > 600 {
		t.Errorf("%d lines after %d more names and types, %d before", after, more, before)
	}
}

// TestMetricsUnderLoad: scrapes and queries run concurrently, and counters never decrease.
func TestMetricsUnderLoad(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, siteRecords)
	r, address := withMetrics(t, map[string]string{upstreamPath: upstreamFile(site)}, "")
	at, done, queries := r.address().String(), make(chan struct{}), 0
	var asking sync.WaitGroup
	for i := range 2 {
		asking.Go(func() {
			c := dns.Client{Net: []string{"udp", "tcp"}[i], Timeout: 10 * time.Second}
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				name := []string{"www.example.com.", fmt.Sprintf("n%d.example.com.", n)}[n%2]
				if _, _, err := c.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), at); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	last := 0.0
	for range 30 {
		now := r.value(address, "nodedns_dns_request_duration_seconds_count")
		if now < last {
			t.Errorf("%v after %v", now, last)
		}
		last = now
		queries++
	}
	close(done)
	asking.Wait()
	if last == 0 {
		t.Error("nothing was counted")
	}
}

// TestReady: /ready agrees with node-dns status and gives the reason. /health answers in both
// cases.
func TestReady(t *testing.T) {
	t.Parallel()
	r, address := withMetrics(t, map[string]string{}, "")
	if code, body := r.get(address, "/ready"); code != http.StatusServiceUnavailable || body != "no upstream nameserver is known\n" {
		t.Errorf("%d %q without upstreams", code, body)
	}
	if r.status().Ready || r.value(address, "nodedns_ready") != 0 {
		t.Error("the status disagrees")
	}
	if code, body := r.get(address, "/health"); code != http.StatusOK || body != "OK\n" {
		t.Errorf("health: %d %q", code, body)
	}
	site := dnstest.NewServer(t, siteRecords)
	write(t, filepath.Join(r.root, upstreamPath), upstreamFile(site))
	r.await("it is ready", func() bool { return r.status().Ready }) // the status request looks at the host
	if code, body := r.get(address, "/ready"); code != http.StatusOK || body != "OK\n" {
		t.Errorf("%d %q with one", code, body)
	}
	for _, path := range []string{"/", "/debug/pprof/", "/metrics/", "/v1/status"} {
		if code, _ := r.get(address, path); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
	if code, _ := r.get(address, "/metrics", func(request *http.Request) { request.Method = http.MethodPost }); code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", code)
	}
	if code, _ := r.get(address, "/metrics", func(request *http.Request) { request.Header.Set("X-Large", strings.Repeat("x", 14<<10)) }); code == http.StatusOK { // 431, unless the connection ends before the response is read
		t.Errorf("a header of 14 KiB: %d", code)
	}
	_, body := r.get(address, "/metrics", func(request *http.Request) {
		request.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	})
	if !strings.HasSuffix(body, "# EOF\n") || !strings.Contains(body, "# TYPE nodedns_panics counter\n") {
		t.Errorf("no OpenMetrics on request: %.300s", body)
	}
}

// TestMetricsWithoutMPTCP: a client that offers Multipath TCP gets plain TCP. Go listens with
// Multipath TCP by default, and Linux before 6.4 labels the accepted sockets as the kernel's own:
// SELinux did not let the confined daemon read any request.
func TestMetricsWithoutMPTCP(t *testing.T) {
	_, address := withMetrics(t, map[string]string{}, "")
	var dialer net.Dialer
	dialer.SetMultipathTCP(true)
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if is, err := conn.(*net.TCPConn).MultipathTCP(); is || err != nil {
		t.Errorf("the connection uses Multipath TCP: %v, %v", is, err)
	}
}

// TestMetricsPortTaken: while another program holds the metrics port, DNS is served and the status
// reports the conflict. The metrics are served once the port is free.
func TestMetricsPortTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	site := dnstest.NewServer(t, siteRecords)
	text := new(lab.Text)
	r := start(t, map[string]string{
		upstreamPath: upstreamFile(site), "/etc/node-dns/node-dns.yaml": fmt.Sprintf("metrics: {address: '%s'}\n", address),
	}, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(text, nil)) })
	if rcode := r.rcode(r.address(), "www.example.com."); rcode != dns.RcodeSuccess {
		t.Errorf("got the rcode %d", rcode)
	}
	const why = "address already in use"
	r.await("the status reports it", func() bool { return r.status().Metrics == control.Metrics{Address: address, Error: why} })
	status := r.status()
	if !status.Ready || !slices.Contains(status.Problems, "metrics are not served at "+address+": "+why) {
		t.Errorf("ready %v, problems %q", status.Ready, status.Problems)
	}
	taken.Close()
	r.await("the metrics are served", func() bool { code, _ := r.get(address, "/metrics"); return code == http.StatusOK })
	if r.await("the status reports it", func() bool { return r.status().Metrics == control.Metrics{Address: address} }); len(r.status().Problems) > 0 {
		t.Errorf("problems %q", r.status().Problems)
	}
	if n := strings.Count(text.String(), "cannot serve metrics"); n != 1 {
		t.Errorf("the log reports the failure %d times:\n%s", n, text.String())
	}
}

// TestMetricsMove: a reload moves the listener to another address, changes the prefix, and removes
// the listener. By default there is none if Root is not /.
func TestMetricsMove(t *testing.T) {
	r, address := withMetrics(t, map[string]string{}, "")
	say := func(yaml string) {
		t.Helper()
		write(t, filepath.Join(r.root, "/etc/node-dns/node-dns.yaml"), yaml)
		if err := r.daemon.reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(address, name string) func() bool {
		return func() bool { return r.value(address, name) == 0 }
	}
	isGone := func(address string) func() bool {
		return func() bool { code, _ := r.get(address, "/health"); return code == 0 }
	}
	say(fmt.Sprintf("metrics: {address: '%s', namespace: coredns}\n", address))
	r.await("another prefix", shows(address, "coredns_panics_total"))
	other := dnstest.FreePort(t).String()
	say(fmt.Sprintf("metrics: {address: '%s'}\n", other))
	r.await("another address", shows(other, "nodedns_panics_total"))
	r.await("nothing at the old one", isGone(address))
	say("metrics: {address: none}\n")
	r.await("nothing at the other one", isGone(other))
	if m := r.status().Metrics; m != (control.Metrics{}) {
		t.Errorf("the status has %+v", m)
	}
	say(fmt.Sprintf("metrics: {address: '0.0.0.0:%s'}\n", address[strings.LastIndexByte(address, ':')+1:]))
	r.await("every address", shows(address, "nodedns_panics_total"))
	if notes := r.status().Notes; !slices.ContainsFunc(notes, func(note string) bool {
		return strings.HasPrefix(note, "metrics are accessible to every client that reaches 0.0.0.0:")
	}) {
		t.Errorf("the status does not report that the metrics are open to others: %q", notes)
	}
	say("# nothing\n")
	r.await("no listener by default", isGone(address))
}

// TestMetricsOfReloads: a faulty file is counted once, and shown as long as it is faulty.
func TestMetricsOfReloads(t *testing.T) {
	t.Parallel()
	r, address := withMetrics(t, map[string]string{}, "")
	good := fmt.Sprintf("metrics: {address: '%s'}\n", address)
	path := filepath.Join(r.root, "/etc/node-dns/node-dns.yaml")
	taken := r.value(address, "nodedns_config_last_reload_success_timestamp_seconds")
	if taken < float64(time.Now().Add(-time.Minute).Unix()) {
		t.Errorf("last reload at %v", taken)
	}
	write(t, path, good+"cacheSize: many\n")
	r.await("the fault", func() bool { return r.value(address, "nodedns_config_last_reload_successful") == 0 })
	if err := r.daemon.reload(t.Context()); err == nil {
		t.Error("a faulty file took effect")
	}
	if n := r.value(address, "nodedns_reload_failed_total"); n != 1 {
		t.Errorf("%v faults", n)
	}
	write(t, path, good+"cacheSize: 7\n")
	r.await("the good file", func() bool { return r.value(address, "nodedns_config_last_reload_successful") == 1 })
	r.await("it is in force", func() bool { return r.value(address, "nodedns_cache_size") == 7 })
	if r.value(address, "nodedns_config_last_reload_success_timestamp_seconds") <= taken {
		t.Error("the repaired file took effect, but its time is not later than the first")
	}
}

// TestMetricsOfHook: a file that the hook wrote without a request is counted once, however often
// the daemon looks.
func TestMetricsOfHook(t *testing.T) {
	t.Parallel()
	r, address := withMetrics(t, map[string]string{"/run/origin-dns-dispatcher/rewrites.json": `{"version":2,"files":{"/etc/resolv.conf":{"wrote":"a"}},"said":"x"}`}, "")
	const row = `nodedns_resolvconf_rewrites_total{reason="hook"} `
	shows := func(n string) func() bool {
		return func() bool {
			r.status() // the status request looks
			return slices.Contains(r.metric(address, "/metrics", "nodedns_resolvconf_rewrites_total"), row+n)
		}
	}
	r.await("earlier writes are not counted", shows("0"))
	for _, step := range []struct{ over, want string }{
		{`"2026-11-22T10:00:00Z"`, "1"},
		{`"2026-11-22T10:00:00Z","2026-11-22T10:00:10Z","2026-11-22T10:00:10Z"`, "3"},
	} {
		write(t, filepath.Join(r.root, "/run/origin-dns-dispatcher/rewrites.json"), `{"version":2,"files":{"/etc/resolv.conf":{"wrote":"a","over":[`+step.over+`]}},"said":"x"}`)
		r.await(step.over, shows(step.want))
		r.status()
		if !shows(step.want)() {
			t.Errorf("%s was counted again", step.over)
		}
	}
}

// TestMetricsOfBuild: the build metric has the version, commit and Go version, like CoreDNS's.
func TestMetricsOfBuild(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, namespace, revision string }{
		{"known", "nodedns", "c0ffee-dirty"},
		{"CoreDNS's prefix", "coredns", "c0ffee"},
		{"not known", "nodedns", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, address := busyDaemon(t, test.namespace, func(c *Config) { c.Version, c.Revision = "1.2", test.revision })
			name := test.namespace + "_build_info"
			want := fmt.Sprintf("%s{goversion=%q,revision=%q,version=\"1.2\"} 1", name, runtime.Version(), test.revision)
			if got := r.metric(address, "/metrics", name); !slices.Equal(got, []string{want}) {
				t.Errorf("%q, expected %s", got, want)
			}
		})
	}
}

// TestMetricsOfHookAsked: one of the hook's writes is counted as requested by the daemon, no matter
// when the daemon sees it.
func TestMetricsOfHookAsked(t *testing.T) {
	d := &follower{Daemon: &Daemon{view: &view.View{Metrics: view.NewMetricsState()}}}
	d.request.Owed = true
	for _, step := range []struct{ shown, want uint64 }{{0, 0}, {1, 0}, {1, 1}, {0, 1}, {2, 3}} {
		d.countHookWrites(int(step.shown))
		if got := d.view.Metrics.Requests.Read()[view.HookReason]; got != step.want {
			t.Errorf("%d more: %d counted", step.shown, got)
		}
	}
}

// TestSearchNXDomain: only cluster names that do not exist are counted, on the fast path and on the
// slow path.
func TestSearchNXDomain(t *testing.T) {
	t.Parallel()
	r, address := busyDaemon(t, "nodedns")
	before := r.value(address, "nodedns_search_nxdomain_total")
	for _, name := range []string{"www.example.com.shop.svc.cluster.local.", "www.example.com.cluster.local.", "nowhere.example.com.", "web.shop.svc.cluster.local."} {
		for range 3 {
			r.rcode(r.address(), name)
		}
	}
	r.await("they are counted", func() bool { return r.value(address, "nodedns_search_nxdomain_total") == before+6 })
}

// TestMetricsOfDeadUpstream: an upstream that has never responded is shown as down, with the
// results of its queries.
func TestMetricsOfDeadUpstream(t *testing.T) {
	t.Parallel()
	dead := dnstest.NewServer(t, siteRecords)
	dead.Vanish()
	r, address := withMetrics(t, map[string]string{upstreamPath: upstreamFile(dead)}, "")
	to := `to="` + dead.Addr().String() + `"`
	if v := r.value(address, "nodedns_upstream_up", to); v != -1 {
		t.Errorf("up is %v before the first query", v)
	}
	if rcode := r.rcode(r.address(), "www.example.com."); rcode != dns.RcodeServerFailure {
		t.Errorf("got the rcode %d", rcode)
	}
	r.await("it is shown as down", func() bool { return r.value(address, "nodedns_upstream_up", to) == 0 })
	if v := r.value(address, "nodedns_proxy_healthcheck_failures_total", to); v < 1 {
		t.Errorf("%v failures", v)
	}
	if v := r.value(address, "nodedns_forward_healthcheck_broken_total"); v != 1 {
		t.Errorf("%v queries without a response", v)
	}
}
