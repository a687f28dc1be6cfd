package main

import (
	"bufio"
	"fmt"
	"io"
)

// queries write what dnsperf asks, a name and a type a line. Each set is the same in every run.
type queries func(w *bufio.Writer)

// services is how many Services the cluster has, and namespaces how many namespaces they are in.
const (
	services   = 10_000
	namespaces = 100
)

// walksOf a service's query stand between it and the next: eight in ten answers are then NXDOMAIN, as pods' are.
const walksOfAService = 4

// hot are n names that are asked again and again.
func hot(n int) queries {
	return func(w *bufio.Writer) {
		for i := range n {
			fmt.Fprintf(w, "h%05d.example.com A\n", i)
		}
	}
}

// unique are n names that are asked once. Those of another series are others.
func unique(series string, n int) queries {
	return func(w *bufio.Writer) {
		for i := range n {
			fmt.Fprintf(w, "u%07d.%s.example.com A\n", i, series)
		}
	}
}

// pods is what pods with ndots:5 ask: google.com below each of the four domains of their search list before it itself, each
// for A and AAAA, and services by their whole names.
func pods(w *bufio.Writer) {
	for i := range services {
		fmt.Fprintf(w, "%s A\n", service(i))
		for j := range walksOfAService {
			walk(w, (i*walksOfAService+j)%namespaces)
		}
	}
}

// podsOnce has each query of pods once.
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
