package main

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/node-dns/node-dns/bench/result"
)

// templates are the peers' configurations.
//
//go:embed peers
var templates embed.FS

// peer is a server that is measured: what it is, and how it is tuned for two cores.
type peer struct {
	name       string
	program    program
	config     string   // its file below peers/; none: it has none
	argv       []string // templates, behind the program
	version    []string // arguments that make it print its version; none: it is of this tree, or of a Go module, which says it
	copies     int      // processes that share the port, where threads cannot; 0: one
	only       []string // workloads that it takes part in; none: all
	oneAddress bool     // listens on one address, whatever the workload
}

// values are what the templates know.
type values struct {
	Dir       string   // of its own, with its configuration
	Config    string   // that file
	Port      int      // to listen on
	Addresses []string // likewise: the first ones of 127.0.0.0/8
	Upstream  int      // port of the nameserver to ask, at 127.0.0.1
	Threads   int
	CacheSize int  // responses to remember
	API       bool // there is a Kubernetes API, which the file kubeconfig in Dir leads to

	// For the rows of the fault matrix.
	Upstreams    []int  // ports of the nameservers to ask
	Zone         string // names below it are asked at ZoneUpstream; none: there is no such zone
	ZoneUpstream int
	CacheOctets  int // CacheSize, as memory
}

var peers = []peer{
	{name: result.Limit, program: ofTree("echo"), argv: []string{"{{.Port}}", "{{.Threads}}", "{{len .Addresses}}"}},
	{
		name: result.Ours, program: ofTree("node-dns"), config: "node-dns.yaml", version: []string{"--version"},
		argv: []string{"serve", "--root={{.Dir}}", "--config={{.Config}}"},
	},
	{
		name: result.Ours + "-forwarding", program: ofTree("node-dns"), config: "node-dns-forwarding.yaml", version: []string{"--version"},
		argv: []string{"serve", "--root={{.Dir}}", "--config={{.Config}}"}, only: []string{"pods"},
	},
	{
		name: result.OneAddress, program: ofTree("node-dns"), config: "node-dns.yaml", version: []string{"--version"},
		argv: []string{"serve", "--root={{.Dir}}", "--config={{.Config}}"}, only: []string{"addresses", "addresses-10k"}, oneAddress: true,
	},
	{name: "unbound", program: debian("unbound"), config: "unbound.conf", argv: []string{"-d", "-c", "{{.Config}}"}, version: []string{"-V"}},
	{
		name: "dnsdist", program: debian("dnsdist"), config: "dnsdist.conf", version: []string{"--version"},
		argv: []string{"--supervised", "--disable-syslog", "-C", "{{.Config}}"},
	},
	{
		name: "pdns-recursor", program: debian("pdns_recursor"), config: "recursor.conf", version: []string{"--version"},
		argv: []string{"--config-dir={{.Dir}}"},
	},
	{
		name: "bind9", program: debian("named"), config: "named.conf", version: []string{"-v"},
		argv: []string{"-f", "-4", "-n", "{{.Threads}}", "-c", "{{.Config}}"},
	},
	{
		name: "knot-resolver", program: debian("kresd"), config: "kresd.conf", version: []string{"--version"}, copies: cores,
		argv: []string{"-n", "-c", "{{.Config}}", "{{.Dir}}"},
	},
	{name: "dnsmasq", program: debian("dnsmasq"), config: "dnsmasq.conf", argv: []string{"-k", "-C", "{{.Config}}"}, version: []string{"--version"}},
	{name: "coredns", program: ofModule("coredns"), config: "Corefile", argv: []string{"-conf", "{{.Config}}"}},
	{
		name: "node-cache", program: ofModule("node-cache"), config: "node-cache.Corefile",
		argv: []string{
			`-localip={{join .Addresses ","}}`, "-setupinterface=false", "-setupiptables=false", "-metrics-listen-address=127.0.0.1:0",
			"-conf={{.Config}}",
		},
	},
}

// choosePeers picks those that are named, separated by commas; all: every one.
func choosePeers(names string) ([]peer, error) {
	return choose(peers, func(p peer) string { return p.name }, names)
}

// runs reports whether the peer takes part in a workload.
func (p peer) runs(w workload) bool { return len(p.only) == 0 || slices.Contains(p.only, w.Name) }

// render returns the peer's configuration and its arguments.
func (p peer) render(v values) (config string, argv []string, err error) {
	if p.config != "" {
		text, err := templates.ReadFile("peers/" + p.config)
		if err != nil {
			return "", nil, fmt.Errorf("reading the configuration of %s: %w", p.name, err)
		}
		if config, err = expand(string(text), v); err != nil {
			return "", nil, fmt.Errorf("configuring %s: %w", p.name, err)
		}
	}
	for _, a := range p.argv {
		arg, err := expand(a, v)
		if err != nil {
			return "", nil, fmt.Errorf("starting %s: %w", p.name, err)
		}
		argv = append(argv, arg)
	}
	return config, argv, nil
}

func expand(text string, v values) (string, error) {
	t, err := template.New("").Funcs(template.FuncMap{"join": strings.Join}).Option("missingkey=error").Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, v)
	return b.String(), err
}
