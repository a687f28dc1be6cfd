package dnsmasqconf

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/test/golden"
	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/internal/test/manpage"
)

// load loads a string as dnsmasq.conf.
func load(t testing.TB, text string) (Config, error) {
	t.Helper()
	return Load(DefaultPaths(lab.Tree(t, map[string]string{"etc/dnsmasq.conf": text})))
}

// page lists the options.
const page = "../../docs/reference/dnsmasq.md"

// Differences from dnsmasq 2.90 that the rows show.
const (
	hostName   = "a server must be an address"
	noPort     = "port 0 and source ports are rejected"
	noWildcard = "a wildcard within a label is rejected"
	strictName = "an invalid domain name is rejected"
	noControl  = "control characters and invalid UTF-8 are rejected"
	fewPorts   = "fewer than 1024 source ports are rejected"
	unchecked  = "options without effect are not checked"
)

// differences are the rows of a table in docs/appendix/dnsmasq.md.
var differences = [][2]string{
	{hostName, "a resolver cannot resolve its own upstreams"},
	{noPort, "port 0 never answers, and a fixed source port makes responses easy to forge (CVE-2008-1447)"},
	{fewPorts, "`min-port` and `max-port` together, also with an empty range: an attacker must guess the port"},
	{noWildcard, "`/*a.example/` of dnsmasq 2.86 and later matches all names with this ending. In node-dns a route has whole labels, over D-Bus and in the cluster's zone too: name the domains"},
	{strictName, "an empty label, a blank, or 64 bytes in a label is a typing error: no query has such a name"},
	{noControl, "dnsmasq reads a line up to the first NUL"},
	{unchecked, "their argument does not matter"},
}

// TestDifferencesPage checks that the page has the differences.
func TestDifferencesPage(t *testing.T) {
	golden.CheckTable(t, "../../docs/appendix/dnsmasq.md", "./internal/dnsmasqconf -run TestDifferencesPage", golden.Table("difference", "reason", differences))
}

// TestLinesLikeDnsmasq compares dnsmasq's own --test with our parser: both find the same faults on
// the same lines.
func TestLinesLikeDnsmasq(t *testing.T) {
	lab.NeedPrograms(t, "dnsmasq")
	rows := []struct {
		text string
		why  string // why they differ; "" if they agree
	}{
		{"server=1.2.3.4\r\n", ""},
		{"  server = 1.2.3.4  \n", ""},
		{"\tserver=1.2.3.4\t# c\n", ""},
		{"server=1.2.3.4# c\n", ""},
		{"# server=x\n\n  #\n", ""},
		{"txt-record=\"a.b,c\n", ""},
		{"txt-record=a.b,\"c d # e\"\n", ""},
		{"txt-record=a.b,\"c \\\" \\t d\"\n", ""},
		{"no-resolv=\n", ""},
		{"no-resolv = x\n", ""},
		{"=x\n", ""},
		{"server=1.2.3.4\\\n", ""},
		{"server=1.2.3.4 \\\nno-resolv\n", ""},
		{"SERVER=1.1.1.1\n", ""},
		{"server 1.1.1.1\n", ""},
		{"server=1.1.1.1,2.2.2.2\n", ""},
		{"server\n", ""},
		{"no-such\n", ""},
		{"\"no-resolv\"\n", ""},
		{"no-resolv \"\"#x\n", ""},
		{"no-resolv\"\"#x\n", ""},
		{"\ufeffno-resolv\n", ""},
		{"no-resolv\x00x\n", noControl},
		{"txt-record=a,\xff\n", noControl},
		{"txt-record=a," + strings.Repeat("x", 1100) + "\n", ""},
		{"cache-size=x\n", ""},
		{"cache-size=-1\n", ""},
		{"cache-size=99999999999\n", ""},
		{"cache-size=010\n", ""},
		{"cache-size=0x10\n", ""},
		{"cache-size=5 \n", ""},
		{"cache-size\n", ""},
		{"cache-size=1\ncache-size=2\n", ""},
		{"no-resolv\nno-resolv\n", ""},
		{"address=/x/\n", ""},
		{"address=/x/1.2.3\n", ""},
		{"address=1.2.3.4\n", ""},
		{"address=/x\n", ""},
		{"address=\n", ""},
		{"address=/#/1.2.3.4\n", ""},
		{"address=/a/b/#\n", ""},
		{"address=/a/1.1.1.1,2.2.2.2\n", ""},
		{"local=/x/1.2.3.4\n", ""},
		{"local=x\n", ""},
		{"local=\n", ""},
		{"local=//\n", ""},
		{"server=/x/#\n", ""},
		{"server=#\n", ""},
		{"server=//1.1.1.1\n", ""},
		{"server=1.1.1.1#5353@lo@127.0.0.1\n", ""},
		{"server=1.1.1.1#\n", noPort},
		{"server=1.1.1.1#0\n", noPort},
		{"server=1.1.1.1@127.0.0.1#0\n", noPort},
		{"server=1.1.1.1#65536\n", ""},
		{"server=localhost\n", hostName},
		{"server=/a b/1.1.1.1\n", strictName},
		{"server=/a..b/1.1.1.1\n", strictName},
		{"server=/a_b/1.1.1.1\n", ""},
		{"server=/*a/1.1.1.1\n", noWildcard},
		{"server=/*.a/1.1.1.1\n", ""},
		{"address=/*.a/1.1.1.1\n", ""},
		{"rebind-domain-ok=/*.a/\n", ""},
		{"server=/*.*.a/1.1.1.1\n", noWildcard},
		{"server=/*/1.1.1.1\n", ""},
		{"server=/bücher.example/1.1.1.1\n", ""},
		{"rev-server=10.0.0.0/8,1.1.1.1\n", ""},
		{"rev-server=10.0.0.0/9,1.1.1.1\n", ""},
		{"rev-server=10.1.2.3,1.1.1.1\n", ""},
		{"rev-server=10.0.0.0/33,1.1.1.1\n", ""},
		{"rev-server=10.0.0.0/8\n", ""},
		{"rev-server=2001:db8::/33,1.1.1.1\n", ""},
		{"rev-server=10.0.0.0/0,1.1.1.1\n", ""},
		{"rev-server=10.0.0.0/8,#\n", ""},
		{"rev-server=x/8,1.1.1.1\n", ""},
		{"host-record=a,b,1.1.1.1,::1,60\n", ""},
		{"host-record=a,1.1.1.1,60,b\n", ""},
		{"host-record=a,,1.1.1.1\n", ""},
		{"host-record=a,60\n", ""},
		{"host-record=1.1.1.1\n", ""},
		{"host-record=*.a,1.1.1.1\n", noWildcard},
		{"cname=a,b\n", ""},
		{"cname=a,b,c,60\n", ""},
		{"cname=a\n", ""},
		{"cname=*.a,b\n", ""},
		{"cname=a,b\ncname=a,c\n", ""},
		{"cname=a,a\n", ""},
		{"cname=a,b\ncname=b,a\n", ""},
		{"txt-record=a\n", ""},
		{"txt-record=a,b,c\n", ""},
		{"txt-record=a b,c\n", strictName},
		{"srv-host=_a._b.c\n", ""},
		{"srv-host=_a._b.c,t,80,1,2\n", ""},
		{"srv-host=_a._b.c,t,x\n", ""},
		{"srv-host=_a._b.c,t,80,1,2,3\n", ""},
		{"srv-host=_a._b.c,t,70000\n", ""},
		{"ptr-record=a,b\n", ""},
		{"ptr-record=a\n", ""},
		{"mx-host=a\n", ""},
		{"mx-host=a,10\n", ""},
		{"mx-host=a,b,10\n", ""},
		{"mx-host=a,b,x\n", ""},
		{"domain=a\n", ""},
		{"domain=a,10.0.0.0/8,local\n", ""},
		{"domain=a b\n", strictName},
		{"listen-address=1.1.1.1,::1\n", ""},
		{"listen-address=x\n", ""},
		{"listen-address=1.1.1.1#54\n", ""},
		{"listen-address=\n", ""},
		{"interface=lo,eth*\nexcept-interface=x\ninterface=\n", ""},
		{"neg-ttl=x\n", ""},
		{"max-ttl=0\n", ""},
		{"min-cache-ttl=4000\n", ""},
		{"dns-forward-max=0\n", ""},
		{"port=70000\n", ""},
		{"port=x\n", ""},
		{"port=0\n", ""},
		{"port=5353\n", ""},
		{"log-facility=bogus\n", unchecked},
		{"use-stale-cache=x\n", ""},
		{"use-stale-cache=-1\n", ""},
		{"use-stale-cache\n", ""},
		{"use-stale-cache=0\n", ""},
		{"use-stale-cache=99999999999\n", ""},
		{"min-port=0\n", ""},
		{"min-port=70000\n", ""},
		{"min-port=x\n", ""},
		{"min-port=60000\nmax-port=65000\n", ""},
		{"min-port=64512\n", ""},
		{"min-port=64513\n", fewPorts},
		{"max-port=2047\n", ""},
		{"max-port=2046\n", fewPorts},
		{"max-port=0\n", fewPorts},
		{"max-port=2000\nmin-port=3000\n", fewPorts},
		{"edns-packet-max=0\n", ""},
		{"edns-packet-max=70000\n", ""},
		{"edns-packet-max=x\n", ""},
		{"alias=1.1.1.1\n", ""},
		{"alias=1.1.1.1,2.2.2.2\n", ""},
		{"alias=1.1.1.0,2.2.2.0,255.255.255.0\n", ""},
		{"alias=1.1.1.0,2.2.2.0,255.0.255.0\n", ""},
		{"alias=1.1.1.0,2.2.2.0,24\n", ""},
		{"alias=1.1.1.0,2.2.2.0,255.255.255.0,9\n", ""},
		{"alias=1.1.1.10-1.1.1.20,2.2.2.0,255.255.255.0\n", ""},
		{"alias=1.1.1.10-1.1.1.20,2.2.2.0\n", ""},
		{"alias=1.1.1.20-1.1.1.10,2.2.2.0,255.255.255.0\n", ""},
		{"alias=1.1.1.10-1.1.2.20,2.2.2.0,255.255.255.0\n", ""},
		{"alias=,2.2.2.2\n", ""},
		{"alias=::1,::2\n", ""},
		{"dns-rr=a.b\n", ""},
		{"dns-rr=a.b,300\n", ""},
		{"dns-rr=a.b,300,\n", ""},
		{"dns-rr=a.b,51,00:01\n", ""},
		{"dns-rr=a.b,51,001\n", ""},
		{"dns-rr=a.b,51,zz\n", ""},
		{"dns-rr=a.b,51,0x01\n", ""},
		{"dns-rr=a.b,51,00,01\n", ""},
		{"dns-rr=a.b,TXT,00\n", ""},
		{"dns-rr=a.b,70000,00\n", ""},
		{"dns-rr=a.b,1,0102\n", ""},
		{"caa-record=a.b,0,issue,ca.test\n", ""},
		{"caa-record=a.b,0,issue\n", ""},
		{"caa-record=a.b,x,issue,ca.test\n", ""},
		{"naptr-record=a.b,1,2,s,SIP+D2U,,x.y\n", ""},
		{"naptr-record=a.b,1,2,s,SIP+D2U,\n", ""},
		{"naptr-record=a.b,1,2,s\n", ""},
		{"naptr-record=a.b,x,2,s,SIP+D2U,\n", ""},
		{"bogus-nxdomain=1.1.1.0/24\n", ""},
		{"bogus-nxdomain=2001:db8::/64\n", ""},
		{"bogus-nxdomain=1.1.1.1,2.2.2.2\n", ""},
		{"bogus-nxdomain=1.1.1.0/40\n", ""},
		{"ignore-address=x\n", ""},
		{"rebind-domain-ok=/a/b/\n", ""},
		{"rebind-domain-ok=a\n", ""},
		{"resolv-file=/nosuch\nresolv-file\naddn-hosts=/nosuch\n", ""},
		{"conf-file=/nosuch\n", ""},
		{"conf-dir=/nosuch\n", ""},
		{"conf-file\nconf-file=\n", ""},
		{"no-poll\nenable-dbus\nbind-dynamic\nproxy-dnssec\ndns-loop-detect\nuser=x\n", ""},
		{"dhcp-range=192.168.0.50,192.168.0.150,12h\nenable-tftp\n", ""},
	}
	var reasons []string
	for _, row := range rows {
		if row.why != "" && !slices.Contains(reasons, row.why) {
			reasons = append(reasons, row.why)
		}
	}
	var listed []string
	for _, row := range differences {
		listed = append(listed, row[0])
	}
	slices.Sort(reasons)
	slices.Sort(listed)
	if diff := cmp.Diff(reasons, listed); diff != "" {
		t.Errorf("-rows +differences\n%s", diff)
	}
	atLine := regexp.MustCompile(`at line (\d+)`)
	for _, row := range rows {
		t.Run(row.text[:min(len(row.text), 60)], func(t *testing.T) {
			root := lab.Tree(t, map[string]string{"etc/dnsmasq.conf": row.text})
			out, theirs := exec.Command("dnsmasq", "--test", "--conf-file="+filepath.Join(root, "etc/dnsmasq.conf")).CombinedOutput()
			_, ours := Load(DefaultPaths(root))
			if ((theirs == nil) == (ours == nil)) != (row.why == "") {
				t.Fatalf("dnsmasq: %s\nours: %v", out, ours)
			}
			faults := nodeconfig.Faults(ours)
			if line := atLine.FindSubmatch(out); row.why == "" && line != nil && string(line[1]) != "" && len(faults) > 0 &&
				!strings.HasPrefix(row.text, "txt-record=a,xxx") && string(line[1]) != itoa(faults[0].Line) {
				t.Errorf("dnsmasq: %s\nours: %v", out, ours)
			}
		})
	}
}

func itoa(n int) string { return string(rune('0' + n)) }

// TestKnowsAllOptions: every option of dnsmasq --help is known here, and takes an argument here if
// it does there.
func TestKnowsAllOptions(t *testing.T) {
	lab.NeedPrograms(t, "dnsmasq")
	out, err := exec.Command("dnsmasq", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range regexp.MustCompile(`(?m)^(?:-\S, |    )--([A-Za-z0-9-]+)`).FindAllStringSubmatch(string(out), -1) {
		found++
		known, ok := words[m[1]]
		if !ok {
			t.Errorf("%s is unknown", m[1])
			continue
		}
		if m[1] == "no-daemon" || m[1] == "help" || m[1] == "version" || m[1] == "test" {
			continue // only for the command line
		}
		path := filepath.Join(t.TempDir(), "x.conf")
		accepts := func(text string) string {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			out, _ := exec.Command("dnsmasq", "--test", "--conf-file="+path).CombinedOutput()
			return string(out)
		}
		if got := strings.Contains(accepts(m[1]+"\n"), "missing parameter"); got != (known.argument == valued) {
			t.Errorf("%s: in dnsmasq it requires an argument: %v", m[1], got)
		}
		if got := strings.Contains(accepts(m[1]+"=x\n"), "extraneous parameter"); got != (known.argument == bare) {
			t.Errorf("%s: in dnsmasq it forbids an argument: %v", m[1], got)
		}
	}
	if found < 150 {
		t.Errorf("got only %d options in --help", found)
	}
}

// TestLongHostsLine: a line of a blocklist may name thousands of hosts. The lines after one of 64
// KiB were lost, and the configuration was invalid. dnsmasq 2.90 reads them.
func TestLongHostsLine(t *testing.T) {
	const names = 10_000
	root := lab.Tree(t, map[string]string{
		"etc/dnsmasq.conf": "", "etc/hosts": "0.0.0.0" + strings.Repeat(" ads.example", names) + "\n192.0.2.9 after.example\n",
	})
	config, err := Load(DefaultPaths(root))
	if err != nil || len(config.Hosts) != 2 || len(config.Hosts[0].Names) != names {
		t.Errorf("got %v, %d hosts", err, len(config.Hosts))
	}
}

// TestFaults: every fault in every file has its file, line and column.
func TestFaults(t *testing.T) {
	root := lab.Tree(t, map[string]string{
		"etc/dnsmasq.conf": "no-resolve\n  server=10.0.0.1#x\ncache-size = many\nconf-dir=/etc/dnsmasq.d,*.conf\nconf-file=/etc/nosuch\naddress=/a\n" +
			"txt-record=\"a\nno-resolv=1\nneg-ttl\nneg-ttl=1\nneg-ttl=2\n\x01\nbücher=1\n\tserver=/a..b/10.0.0.1\n" + strings.Repeat(" ", 1026) + "a\n",
		"etc/dnsmasq.d/a.conf": "dhcp-rang=x\nhost-record=a\ncname=a,b\ncname=b,a\n",
		"etc/dnsmasq.d/b.txt":  "never read\n",
	})
	_, err := Load(DefaultPaths(root))
	golden.Check(t, "testdata/faults.golden", strings.ReplaceAll(err.Error(), root, "")+"\n")
}

// TestFiles: which files are read, in which order.
func TestFiles(t *testing.T) {
	rows := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"none", map[string]string{}, ""},
		{"directory alone", map[string]string{"etc/dnsmasq.d/b.conf": "", "etc/dnsmasq.d/a.conf": ""}, "dnsmasq.d/a.conf dnsmasq.d/b.conf"},
		{"backup files are skipped", map[string]string{
			"etc/dnsmasq.d/a": "", "etc/dnsmasq.d/.b": "", "etc/dnsmasq.d/c~": "", "etc/dnsmasq.d/#d#": "", "etc/dnsmasq.d/e.rpmsave": "", "etc/dnsmasq.d/sub/f": "",
		}, "dnsmasq.d/a"},
		{"RHEL's", map[string]string{
			"etc/dnsmasq.conf": "conf-dir=/etc/dnsmasq.d,.rpmnew,.rpmsave,.rpmorig\n", "etc/dnsmasq.d/a.conf": "", "etc/dnsmasq.d/b.rpmnew": "", "etc/dnsmasq.d/origin-upstream-dns.conf": "server=10.0.0.1\n",
		}, "dnsmasq.conf dnsmasq.d/a.conf"},
		{
			"included suffix",
			map[string]string{"etc/dnsmasq.conf": "conf-dir=/etc/dnsmasq.d/, *.conf\n", "etc/dnsmasq.d/B.conf": "", "etc/dnsmasq.d/a.conf": "", "etc/dnsmasq.d/b.txt": "", "etc/dnsmasq.d/10.conf": ""},
			"dnsmasq.conf dnsmasq.d/10.conf dnsmasq.d/B.conf dnsmasq.d/a.conf",
		},
		{"all suffixes", map[string]string{"etc/dnsmasq.conf": "conf-dir=/etc/dnsmasq.d,*\n", "etc/dnsmasq.d/b.txt": ""}, "dnsmasq.conf dnsmasq.d/b.txt"},
		{"include loop", map[string]string{"etc/dnsmasq.conf": "conf-file=/etc/x.conf\n", "etc/x.conf": "conf-file=/etc/dnsmasq.conf\nconf-file=/etc/x.conf\n"}, "dnsmasq.conf x.conf"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			root := lab.Tree(t, row.files)
			config, err := Load(DefaultPaths(root))
			if err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(strings.Join(config.Files, " "), root+"/etc/", "")
			if got != row.want {
				t.Errorf("got files %q, want %q", got, row.want)
			}
			if len(config.Servers) > 0 {
				t.Errorf("our own file was read: %v", config.Servers)
			}
		})
	}
}

// TestServers covers server=, local=, rev-server= and address=.
func TestServers(t *testing.T) {
	config, err := load(t, `server=10.0.0.1
server=/a.example/b.example/10.0.0.2#5353@eth1
local=/c.example/
server=/d.example/#
server=//10.0.0.3
rev-server=10.1.0.0/16,10.0.0.4
rev-server=10.2.0.0/15,10.0.0.5
address=/e.example/
local=
server=/"f".example/10.0.0.6 # why
`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range config.Servers {
		text := s.Rule.String()
		if s.Plain {
			text = "plain " + text
		}
		got = append(got, text)
	}
	want := []string{
		"10.0.0.1", "/a.example/10.0.0.2#5353@eth1", "/b.example/10.0.0.2#5353@eth1", "/c.example/", "/d.example/#", "plain 10.0.0.3",
		"/1.10.in-addr.arpa/10.0.0.4", "/2.10.in-addr.arpa/10.0.0.5", "/3.10.in-addr.arpa/10.0.0.5", "/e.example/", "/f.example/10.0.0.6",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(config.Aside) != 1 || config.Aside[0].Place.Line != 9 {
		t.Errorf("got aside %v, want none", config.Aside)
	}
}

// TestPage: docs/reference/dnsmasq.md lists each option in the right section.
func TestPage(t *testing.T) {
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([A-Za-z0-9-]+)`")
	names := func(heading string) (names []string) {
		for _, cell := range manpage.Column(t, page, heading) {
			for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
				names = append(names, m[1])
			}
		}
		slices.Sort(names)
		return names
	}
	var aside, met []string
	for _, name := range slices.Sorted(maps.Keys(words)) {
		switch known := words[name]; {
		case slices.Contains([]string{dhcp, tftp, advertisements}, known.aside):
		case known.aside != "":
			aside = append(aside, name)
		case known.met != "":
			met = append(met, name)
		case !regexp.MustCompile("`" + name + "[`=]").Match(data):
			t.Errorf("%s does not list %s, which has an effect", page, name)
		}
	}
	rows := map[[2]string][]string{} // the options of each reason: of words that have no effect, and of those that always apply
	for _, name := range slices.Sorted(maps.Keys(words)) {
		known := words[name]
		if reason := [2]string{known.aside, known.met}; reason != [2]string{} && !slices.Contains([]string{dhcp, tftp, advertisements}, known.aside) {
			rows[reason] = append(rows[reason], "`"+name+"`")
		}
	}
	for reason, names := range rows {
		if row := "\n| " + strings.Join(names, ", ") + " | " + reason[0] + reason[1] + " |\n"; !strings.Contains(string(data), row) {
			t.Errorf("%s has no row%s", page, row)
		}
	}
	if diff := cmp.Diff(aside, names("## Options that node-dns does not follow")); diff != "" {
		t.Errorf("not followed: -words +%s\n%s", page, diff)
	}
	if diff := cmp.Diff(met, names("## Options that describe what node-dns always does")); diff != "" {
		t.Errorf("always applied: -words +%s\n%s", page, diff)
	}
}

// TestAside: each option without effect is reported, once or for each occurrence, and no other
// option is.
func TestAside(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(words)) {
		known := words[name]
		text := name
		if known.argument != bare {
			text += "=1"
		}
		config, _ := load(t, text+"\n")
		if (len(config.Aside) == 1) != (known.aside != "") && name != "host-record" && name != "ptr-record" {
			t.Errorf("%s: got aside %v", name, config.Aside)
		}
		if known.aside == "" && known.met == "" && known.argument != bare && readers()[name] == nil && config.Number(name) != 1 {
			t.Errorf("%s: neither has a reader nor is a number", name)
		}
	}
}

// FuzzText: for any file, the positions of faults are within it, and rendered rules parse to the
// same rules.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"server=/a/10.0.0.1#53@eth0\n", "address=/a/#/1.1.1.1\n", "cname=a,b,60\ncname=b,a", "host-record=a,::1,9", "txt-record=a,\"b,\\\"c\" # d", "rev-server=10.0.0.0/9,#", "\"", "srv-host=_a._b,c,1,2,3", "domain=a\nexpand-hosts", "alias=1.1.1.1-1.1.1.9,2.2.2.0,255.255.255.0", "dns-rr=a.b,51,00:1", "caa-record=a,0,issue,b", "naptr-record=a,1,2,s,x,y,z"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "conf") || strings.Contains(text, "hosts") {
			t.Skip("reads files")
		}
		read := func(text string) (Config, []*nodeconfig.Fault) {
			l := newLoader(Paths{})
			l.text("x", []byte(text))
			l.checkAliases()
			return l.config, l.faults
		}
		config, faults := read(text)
		lines := strings.Count(text, "\n") + 1
		for _, fault := range faults {
			if fault.Line < 1 || fault.Line > lines || fault.Column < 1 || fault.Column > maxLine+1 {
				t.Errorf("got fault %v in a file of %d lines", fault, lines)
			}
			if strings.ContainsFunc(fault.Error(), func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Errorf("got control characters in %q", fault.Error())
			}
		}
		var rendered strings.Builder
		for _, s := range config.Servers {
			if s.Plain {
				rendered.WriteString("server=/" + strings.TrimPrefix("/"+s.Rule.String(), "//") + "\n")
				continue
			}
			rendered.WriteString("server=" + s.Rule.String() + " # same\n")
		}
		again, faults := read(rendered.String())
		if len(faults) > 0 || len(again.Servers) != len(config.Servers) {
			t.Fatalf("%q: %v, %d servers of %d", rendered.String(), faults, len(again.Servers), len(config.Servers))
		}
	})
}

// TestReader: unchanged files are not read again, and every change is detected, even within the
// same clock tick.
func TestReader(t *testing.T) {
	root := lab.Tree(t, map[string]string{"etc/dnsmasq.d/a.conf": "addn-hosts=/etc/more\nserver=192.0.2.1\n"})
	r := NewReader(DefaultPaths(root))
	look := func() string {
		config, _ := r.Load()
		return fmt.Sprint(len(config.Files), " ", len(config.Servers), " ", len(config.Hosts))
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, change := range []struct{ name, text, want string }{
		{"etc/dnsmasq.d/b.conf", "server=192.0.2.2\n", "2 2 0"},
		{"etc/dnsmasq.d/b.conf", "server=192.0.2.2\nserver=192.0.2.3\n", "2 3 0"},
		{"etc/more", "192.0.2.9 more.example\n", "2 3 1"},
		{"etc/hosts", "192.0.2.9 hosts.example\n", "2 3 2"},
		{"etc/dnsmasq.conf", "no-hosts\n", "3 3 1"},
	} {
		put(change.name, change.text)
		if got := look(); got != change.want {
			t.Errorf("after %s: got %s, want %s", change.name, got, change.want)
		}
	}
	if r.stampsOf(time.Now()) != "" {
		t.Error("files that were just written count as unchanged")
	}
	r.stamps = r.stampsOf(time.Now().Add(time.Hour))
	if later := r.stampsOf(time.Now().Add(2 * time.Hour)); r.stamps == "" || later != r.stamps {
		t.Errorf("stamps of the same files differ: %q, %q", r.stamps, later)
	}
	put("etc/more", "192.0.2.9 more.example\n192.0.2.8 other.example\n")
	if r.stampsOf(time.Now().Add(2*time.Hour)) == r.stamps {
		t.Error("a change was not detected")
	}
}

// TestFollowed: the options that are effective here. The daemon's tests have a row for each.
func TestFollowed(t *testing.T) {
	if got := len(Followed()); got < 40 {
		t.Errorf("got only %d effective options", got)
	}
}

// TestLogQueries: one of its arguments has a meaning, and dnsmasq ignores all others.
func TestLogQueries(t *testing.T) {
	for text, want := range map[string][2]bool{
		"":                                 {},
		"log-queries\n":                    {true, false},
		"log-queries=extra\n":              {true, true},
		"log-queries=extra\nlog-queries\n": {true, true},
		"log-queries\nlog-queries=extra\n": {true, true},
		"log-queries=proto\n":              {true, false},
		"log-queries=extras\n":             {true, false},
	} {
		config, err := load(t, text)
		if got := [2]bool{config.Has("log-queries"), config.LogExtra}; err != nil || got != want {
			t.Errorf("%q: got %v %v, want %v", text, got, err, want)
		}
	}
}

// TestEscaped: the texts of a TXT record in the form that package dns packs.
func TestEscaped(t *testing.T) {
	want := []string{`a\"\\`, `\000\195\169`}
	if got := escaped([]string{"a\"\\", "\x00é"}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
