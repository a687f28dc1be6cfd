package view

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

type row struct {
	name   string // without the namespace
	help   string
	kind   prometheus.ValueType // 0 for a histogram
	labels []string
	fixed  prometheus.Labels // more labels, each with the same value always
	read   func(s *Sample, put puts)
}

// with returns the row with labels whose values are always the same.
func (r row) with(fixed prometheus.Labels) row {
	r.fixed = fixed
	return r
}

// puts receives the values of one row, each with its label values.
type puts struct {
	value func(v float64, labels ...string)
	hist  func(h buckets, labels ...string)
}

// buckets is a histogram from package stats.
type buckets interface {
	Buckets() (count uint64, sum float64, upTo map[float64]uint64)
}

// counter, gauge and spread create rows. Names match CoreDNS's metrics if it has the same one
// (plugin/*/README.md of 1.14).
func counter(name, help string, labels []string, read func(*Sample, puts)) row {
	return row{name: name, help: help, kind: prometheus.CounterValue, labels: labels, read: read}
}

func gauge(name, help string, labels []string, read func(*Sample, puts)) row {
	return row{name: name, help: help, kind: prometheus.GaugeValue, labels: labels, read: read}
}

func spread(name, help string, labels []string, read func(*Sample, puts)) row {
	return row{name: name, help: help, labels: labels, read: read}
}

// number reads a row with one value.
func number[N int | int64 | uint64 | float64](of func(*Sample) N) func(*Sample, puts) {
	return func(s *Sample, put puts) { put.value(float64(of(s))) }
}

func truth(of func(*Sample) bool) func(*Sample, puts) {
	return func(s *Sample, put puts) { put.value(one(of(s))) }
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Labels by which CoreDNS distinguishes its server blocks, and the caches of these. node-dns has a
// single one for all listeners and names.
var (
	block      = prometheus.Labels{"server": "dns://", "zone": ".", "view": ""}
	blockCache = prometheus.Labels{"server": "dns://", "zones": ".", "view": ""}
)

// proxy is CoreDNS's label for plugin forward.
var proxy = prometheus.Labels{"proxy_name": "forward"}

func tables(namespace string) [][]row {
	all := [][]row{trafficRows, serverRows, cacheRows, upstreamRows, hostRows, clusterRows}
	if namespace == coreDNS {
		all = append(all, coreDNSRows)
	}
	return all
}

// coreDNS is the namespace of dashboards made for CoreDNS.
const coreDNS = "coredns"

// collector exports samples under the names of one namespace.
type collector struct {
	rows []described
	MetricsSource
}

type described struct {
	row
	desc *prometheus.Desc
}

var _ prometheus.Collector = (*collector)(nil)

// newRegistry returns a registry with all metrics of a namespace. It is safe for concurrent use and
// reads the source on each scrape.
func newRegistry(namespace string, source MetricsSource) *prometheus.Registry {
	c := &collector{MetricsSource: source}
	for _, table := range tables(namespace) {
		for _, r := range table {
			c.rows = append(c.rows, described{r, prometheus.NewDesc(namespace+"_"+r.name, r.help, r.labels, r.fixed)})
		}
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// errPanicked is the error that a scraper gets after a panic. The log has the details.
var errPanicked = errors.New("internal error")

func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, r := range c.rows {
		out <- r.desc
	}
}

func (c *collector) Collect(out chan<- prometheus.Metric) {
	defer func() {
		if value := recover(); value != nil {
			c.Panicked(value)
			out <- prometheus.NewInvalidMetric(c.rows[0].desc, errPanicked)
		}
	}()
	s := c.Sample()
	for _, r := range c.rows {
		r.read(&s, puts{
			value: func(v float64, labels ...string) { out <- prometheus.MustNewConstMetric(r.desc, r.kind, v, labels...) },
			hist: func(h buckets, labels ...string) {
				count, sum, upTo := h.Buckets()
				out <- prometheus.MustNewConstHistogram(r.desc, count, sum, upTo, labels...)
			},
		})
	}
}
