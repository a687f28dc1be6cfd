package main

import (
	"bufio"
	"fmt"
	"io"
)

// queries writes input for dnsperf: one name and type per line. It is the same in every run.
type queries func(w *bufio.Writer)

// The cluster has this number of Services, divided among this number of namespaces.
const (
	services   = 10_000
	namespaces = 100
)

// walksOfAService is the number of search-list walks per service query. It makes eight in ten
// answers NXDOMAIN, as for real pods.
const walksOfAService = 4

// hot returns n names that are queried repeatedly.
func hot(n int) queries {
	return func(w *bufio.Writer) {
		for i := range n {
			fmt.Fprintf(w, "h%05d.example.com A\n", i)
		}
	}
}

// unique returns n names that are queried once. They differ between series.
func unique(series string, n int) queries {
	return func(w *bufio.Writer) {
		for i := range n {
			fmt.Fprintf(w, "u%07d.%s.example.com A\n", i, series)
		}
	}
}

// pods writes the queries of pods with ndots:5: google.com below each of the four domains of their
// search list and then itself, each for A and AAAA, and services by their full names.
func pods(w *bufio.Writer) {
	for i := range services {
		fmt.Fprintf(w, "%s A\n", service(i))
		for j := range walksOfAService {
			walk(w, (i*walksOfAService+j)%namespaces)
		}
	}
}

// podsOnce writes each query of pods once.
func podsOnce(w *bufio.Writer) {
	for i := range services {
		fmt.Fprintf(w, "%s A\n", service(i))
	}
	for i := range namespaces {
		walk(w, i)
	}
}

func walk(w *bufio.Writer, namespace int) {
	for _, domain := range []string{
		fmt.Sprintf(".ns-%d.svc.cluster.local", namespace), ".svc.cluster.local", ".cluster.local", ".corp.example.com", "",
	} {
		fmt.Fprintf(w, "google.com%s A\ngoogle.com%s AAAA\n", domain, domain)
	}
}

func service(i int) string {
	return fmt.Sprintf("svc-%d.ns-%d.svc.cluster.local", i, i%namespaces)
}

// writeTo writes the queries.
func (q queries) writeTo(w io.Writer) error {
	b := bufio.NewWriter(w)
	q(b)
	return b.Flush()
}
