package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// collector shows samples under the names of one namespace.
type collector struct {
	rows []described
	Source
}

type described struct {
	row
	desc *prometheus.Desc
}

var _ prometheus.Collector = (*collector)(nil)

// newRegistry has all that is shown under a namespace. Its functions may be called concurrently, and read the source.
func newRegistry(namespace string, source Source) *prometheus.Registry {
	c := &collector{Source: source}
	for _, table := range tables(namespace) {
		for _, r := range table {
			c.rows = append(c.rows, described{r, prometheus.NewDesc(namespace+"_"+r.name, r.help, r.labels, nil)})
		}
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// errPanicked is what who scrapes is told of a fault of the program, which the log has.
var errPanicked = errors.New("internal error")

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, r := range c.rows {
		out <- r.desc
	}
}

// Collect implements prometheus.Collector.
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
