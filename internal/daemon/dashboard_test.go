package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// dashboard is the part of a Grafana dashboard that this test reads.
type dashboard struct {
	Templating struct {
		List []struct{ Name, Definition string }
	}
	Panels []struct {
		Type, Title string
		Targets     []struct{ Expr string }
	}
}

// TestDashboard: a real Prometheus that scrapes a real daemon under load has data for every query
// of every panel and knows every metric in the alerts. A short run only checks that
// docs/reference/metrics.md has the metrics, which TestMetricsDocument compares with a daemon's.
func TestDashboard(t *testing.T) {
	data, err := os.ReadFile("../../contrib/grafana/node-dns.json")
	if err != nil {
		t.Fatal(err)
	}
	var board dashboard
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	var variables []string
	for _, v := range board.Templating.List {
		variables = append(variables, v.Name)
	}
	if !slices.Contains(variables, "job") || !slices.Contains(variables, "instance") {
		t.Errorf("the variables are %q", variables)
	}
	rules, err := os.ReadFile("../../contrib/prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]string{} // expressions by their place
	for _, name := range regexp.MustCompile(`\bnodedns_\w+`).FindAllString(string(rules), -1) {
		asked["rules.yaml: "+name] = name + " or " + name + "_count"
	}
	if len(asked) < 12 {
		t.Fatalf("the alerts name only %d metrics", len(asked))
	}
	unset := strings.NewReplacer("$__rate_interval", "20s", `"$job"`, `"node-dns"`, `"$instance"`, `".*"`)
	for _, panel := range board.Panels {
		for i, target := range panel.Targets {
			asked[fmt.Sprintf("%s, %d", panel.Title, i)] = unset.Replace(target.Expr)
		}
	}
	if len(asked) < 50 {
		t.Fatalf("only %d queries", len(asked))
	}

	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for where, expression := range asked {
		for _, name := range regexp.MustCompile(`\bnodedns_\w+`).FindAllString(expression, -1) {
			name = regexp.MustCompile(`(_(bucket|count|sum))+$`).ReplaceAllString(name, "")
			if !regexp.MustCompile("`" + name + "[`{]").Match(page) {
				t.Errorf("%s: there is no metric %s", where, name)
			}
		}
	}
	if testing.Short() {
		return
	}
	lab.NeedPrograms(t, "prometheus")
	r, address := busyDaemon(t, "nodedns")
	ask := startPrometheus(t, address)
	for deadline := time.Now().Add(2 * time.Minute); len(asked) > 0; time.Sleep(time.Second) {
		for _, name := range []string{"www.example.com.", "nowhere.example.com.", "www.example.com.shop.svc.cluster.local.", "web.shop.svc.cluster.local."} {
			r.rcode(r.address(), name)
		}
		for where, expression := range asked {
			answered, err := ask(expression)
			if err != nil {
				t.Fatalf("%s: %s: %v", where, expression, err)
			}
			if answered {
				delete(asked, where)
			}
		}
		if time.Now().After(deadline) {
			break
		}
	}
	for where, expression := range asked {
		t.Errorf("%s: no answer to %s", where, expression)
	}
}

// startPrometheus runs a Prometheus that scrapes the address every second until the test ends. ask
// reports whether an expression has values.
func startPrometheus(t *testing.T, address string) (ask func(expression string) (bool, error)) {
	t.Helper()
	dir, at := t.TempDir(), dnstest.FreePort(t).String()
	config := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs: [{job_name: node-dns, static_configs: [{targets: ['%s']}]}]\n", address)
	path := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	command := exec.CommandContext(ctx, "prometheus", "--config.file="+path, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+at, "--log.level=warn")
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 20 * time.Second
	var out lab.Text
	command.Stdout, command.Stderr = &out, &out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		command.Wait()
		if t.Failed() {
			t.Log(out.String())
		}
	})
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return func(expression string) (bool, error) {
		response, err := client.Get("http://" + at + "/api/v1/query?query=" + url.QueryEscape(expression))
		if err != nil {
			return false, nil // not started yet
		}
		defer response.Body.Close()
		var answer struct {
			Status, Error string
			Data          struct{ Result []any }
		}
		if response.StatusCode == http.StatusServiceUnavailable {
			return false, nil // not ready yet
		}
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
			return false, err
		}
		if answer.Status != "success" {
			return false, fmt.Errorf("%s", answer.Error)
		}
		return len(answer.Data.Result) > 0, nil
	}
}
