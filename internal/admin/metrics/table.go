package metrics

import "github.com/prometheus/client_golang/prometheus"

// row is one family of metrics.
type row struct {
	name   string // behind the namespace
	help   string
	kind   prometheus.ValueType // of a histogram: 0
	labels []string
	read   func(s *Sample, put puts)
}

// puts takes the values of one row, each with the values of its labels.
type puts struct {
	value func(v float64, labels ...string)
	hist  func(h buckets, labels ...string)
}

// buckets is a histogram of internal/sys/percpu.
type buckets interface {
	Buckets() (count uint64, sum float64, upTo map[float64]uint64)
}

// counter, gauge and spread make rows. CoreDNS' words stand for the same where it has the metric (plugin/*/README.md of 1.14).
func counter(name, help string, labels []string, read func(*Sample, puts)) row {
	return row{name: name, help: help, kind: prometheus.CounterValue, labels: labels, read: read}
}

func gauge(name, help string, labels []string, read func(*Sample, puts)) row {
	return row{name: name, help: help, kind: prometheus.GaugeValue, labels: labels, read: read}
}

func spread(name, help string, labels []string, read func(*Sample, puts)) row {
	return row{name: name, help: help, labels: labels, read: read}
}

// number reads a row that has one value and no labels.
func number[N int | int64 | uint64 | float64](of func(*Sample) N) func(*Sample, puts) {
	return func(s *Sample, put puts) { put.value(float64(of(s))) }
}

// truth reads a row that is 1 or 0.
func truth(of func(*Sample) bool) func(*Sample, puts) {
	return func(s *Sample, put puts) { put.value(one(of(s))) }
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// The labels by which CoreDNS tells its server blocks apart. There is one here, for all listeners and all names.
const (
	server = "dns://"
	zone   = "."
	view   = ""
)

var whole = []string{"server", "zone", "view"}

func and(labels []string, more ...string) []string {
	return append(labels[:len(labels):len(labels)], more...)
}

// tables are the rows of a namespace.
func tables(namespace string) [][]row {
	all := [][]row{trafficRows, serverRows, cacheRows, upstreamRows, hostRows, clusterRows}
	if namespace == coreDNS {
		all = append(all, coreDNSRows)
	}
	return all
}

// coreDNS is the namespace of dashboards that were made for it.
const coreDNS = "coredns"
