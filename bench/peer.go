package main

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/node-dns/node-dns/bench/result"
)

// templates are the configurations of the peers.
//
//go:embed peers
var templates embed.FS

// peer is a server to measure, with its tuning for two cores.
type peer struct {
	name       string
	program    program
	config     string   // file below peers/; "" if it has none
	argv       []string // templates for the arguments
	version    []string // arguments to print the version; nil: known from the tree or Go module
	copies     int      // processes that share the port, for a server without threads; 0: one
	only       []string // workloads in which it takes part; nil: all
	oneAddress bool     // listens on one address, regardless of the workload
	tls        bool     // verifies an upstream nameserver over DNS over TLS
}

// values are the variables of the templates.
type values struct {
	Dir       string   // its own directory, with its configuration
	Config    string   // path of the configuration
	Port      int      // to listen on
	Addresses []string // to listen on: the first ones of 127.0.0.0/8
	Upstream  int      // port of the upstream nameserver at 127.0.0.1
	CA        string   // certificate of an upstream over DNS over TLS, the file ca.pem in Dir; "" for UDP
	Key       string   // its key, the file key.pem in Dir, for the upstream itself
	TLSPort   int      // likewise, for the upstream itself
	Threads   int
	CacheSize int  // responses to cache
	API       bool // there is a Kubernetes API; the file kubeconfig in Dir points to it

	// For the rows of the fault matrix.
	Upstreams    []int  // ports of the upstream nameservers
	Zone         string // names below it are forwarded to ZoneUpstream; "" if there is no such zone
	ZoneUpstream int
	CacheOctets  int // CacheSize in bytes
}

var peers = []peer{
	{name: result.Limit, program: ofTree("echo"), argv: []string{"{{.Port}}", "{{.Threads}}", "{{len .Addresses}}"}},
	{
		name: result.Ours, program: ofTree("node-dns"), config: "node-dns.yaml", version: []string{"--version"},
		argv: []string{"serve", "--root={{.Dir}}", "--config={{.Config}}"}, tls: true,
	},
	{
		name: result.Ours + "-forwarding", program: ofTree("node-dns"), config: "node-dns-forwarding.yaml", version: []string{"--version"},
		argv: []string{"serve", "--root={{.Dir}}", "--config={{.Config}}"}, only: []string{"pods"},
	},
	{
		name: result.OneAddress, program: ofTree("node-dns"), config: "node-dns.yaml", version: []string{"--version"},
		argv: []string{"serve", "--root={{.Dir}}", "--config={{.Config}}"}, only: []string{"addresses", "addresses-10k", "addresses-20", "addresses-64"}, oneAddress: true,
	},
	{name: "unbound", program: debian("unbound"), config: "unbound.conf", argv: []string{"-d", "-c", "{{.Config}}"}, version: []string{"-V"}, tls: true},
	{
		name: "dnsdist", program: debian("dnsdist"), config: "dnsdist.conf", version: []string{"--version"},
		argv: []string{"--supervised", "--disable-syslog", "-C", "{{.Config}}"}, tls: true,
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

// oursBefore is node-dns of an earlier revision, with the configuration of today's.
var oursBefore = peer{
	name: result.Ours + "-before", program: ofTree("node-dns-before"), config: "node-dns.yaml", version: []string{"--version"},
	argv: []string{"serve", "--root={{.Dir}}", "--config={{.Config}}"}, tls: true,
}

// tlsFront answers over DNS over TLS with what the upstream nameserver answers.
var tlsFront = peer{
	name: "upstream-tls", program: debian("dnsdist"), config: "upstream-tls.conf",
	argv: []string{"--supervised", "--disable-syslog", "-C", "{{.Config}}"},
}

// choosePeers returns the named peers, separated by commas; "all" means every one.
func choosePeers(names string) ([]peer, error) {
	return choose(peers, func(p peer) string { return p.name }, names)
}

// runs reports whether the peer takes part in a workload.
func (p peer) runs(w workload) bool {
	return (len(p.only) == 0 || slices.Contains(p.only, w.Name)) && (p.tls || !w.tls)
}

// render returns the peer's configuration and arguments.
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
