package netns

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// A boardPrometheus is a real Prometheus on the node that scrapes it.
type boardPrometheus struct {
	t     testing.TB
	every time.Duration // scrape interval
}

const boardPrometheusAt = "127.0.0.1:9090"

// startPrometheus returns after the first scrape of the node.
func (n *boardNode) startPrometheus(every time.Duration) *boardPrometheus {
	n.t.Helper()
	dir := n.t.TempDir()
	n.l.WriteFile(dir+"/prometheus.yml", fmt.Sprintf(`global: {scrape_interval: %v}
scrape_configs:
  - job_name: node-dns
    static_configs: [{targets: ["127.0.0.1:9453"], labels: {instance: %s}}]
`, every, boardNodeName))
	n.l.Start(lab.Command{Argv: []string{
		"prometheus", "--config.file=" + dir + "/prometheus.yml", "--storage.tsdb.path=" + dir + "/data",
		"--web.listen-address=" + boardPrometheusAt, "--log.level=warn",
	}})
	p := &boardPrometheus{n.t, every}
	n.l.Await("Prometheus to have scraped the node", func() bool {
		_, values, err := p.try("nodedns_ready", time.Now().Add(-time.Minute), time.Now())
		return err == nil && values > 0
	})
	return p
}

// ask sends a query of the dashboard like Grafana and counts the values in the answer.
func (p *boardPrometheus) ask(expression string, from, to time.Time) (data json.RawMessage, values int) {
	p.t.Helper()
	set := strings.NewReplacer("$__rate_interval", (4 * p.every).String(), "$job", ".*", "$instance", ".*")
	data, values, err := p.try(set.Replace(expression), from, to)
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return data, values
}

func (p *boardPrometheus) try(expression string, from, to time.Time) (data json.RawMessage, values int, err error) {
	seconds := func(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1e3, 'f', 3, 64) }
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.PostForm("http://"+boardPrometheusAt+"/api/v1/query_range", url.Values{
		"query": {expression}, "start": {seconds(from)}, "end": {seconds(to)}, "step": {p.every.String()},
	})
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	var answer struct {
		Error string
		Data  json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, 0, err
	}
	if answer.Error != "" {
		return nil, 0, fmt.Errorf("%s", answer.Error)
	}
	values, err = countValues(answer.Data)
	return answer.Data, values, err
}

// countValues counts the values that are numbers. NaN, such as 0/0, does not count.
func countValues(data json.RawMessage) (n int, err error) {
	var read struct {
		Result []struct{ Values [][2]any }
	}
	if err := json.Unmarshal(data, &read); err != nil {
		return 0, err
	}
	for _, series := range read.Result {
		for _, value := range series.Values {
			text, _ := value[1].(string)
			if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(f) {
				n++
			}
		}
	}
	return n, nil
}
