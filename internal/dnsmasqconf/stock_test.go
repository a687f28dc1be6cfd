package dnsmasqconf

import (
	"fmt"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestStock: two lines of openshift-ansible's own file, as its releases wrote it, have no effect.
// In a changed file, and in any other file, they have one, and their cost is reported.
func TestStock(t *testing.T) {
	const (
		v34  = "no-resolv\ndomain-needed\nno-negcache\nmax-cache-ttl=1\nenable-dbus\nbind-interfaces\nlisten-address=192.0.2.10\n"
		v37  = "no-resolv\ndomain-needed\nno-negcache\nmax-cache-ttl=1\nenable-dbus\ndns-forward-max=5000\ncache-size=5000\nbind-dynamic\nexcept-interface=lo\n# End of config\n"
		v311 = "no-resolv\ndomain-needed\nneg-ttl=1\nmax-cache-ttl=1\nenable-dbus\ndns-forward-max=10000\ncache-size=10000\nbind-dynamic\nmin-port=1024\nexcept-interface=lo\nexcept-interface=tun0\n# End of config\n"
	)
	rows := []struct {
		name, file, text string
		want             string // max-cache-ttl, no-negcache, neg-ttl, aside and costs
	}{
		{"3.4", stockName, v34, "-1 false -1 no-negcache:3 max-cache-ttl:4"},
		{"3.7", stockName, v37, "-1 false -1 no-negcache:3 max-cache-ttl:4"},
		{"3.11", stockName, v311, "-1 false 1 max-cache-ttl:4"},
		{"other file name", "mine.conf", v37, "1 true -1 costs max-cache-ttl=1 costs no-negcache"},
		{"extra line", stockName, v37 + "server=192.0.2.1\n", "1 true -1 costs max-cache-ttl=1 costs no-negcache"},
		{"other max-cache-ttl", stockName, strings.Replace(v37, "ttl=1", "ttl=2", 1), "2 true -1 costs max-cache-ttl=2 costs no-negcache"},
		{"other cache-size", stockName, strings.Replace(v37, "5000", "6000", 1), "1 true -1 costs max-cache-ttl=1 costs no-negcache"},
		{"missing line", stockName, strings.Replace(v37, "domain-needed\n", "", 1), "1 true -1 costs max-cache-ttl=1 costs no-negcache"},
		{"max-cache-ttl without cost", "mine.conf", "max-cache-ttl=60\n", "60 false -1"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			config, err := Load(DefaultPaths(lab.Tree(t, map[string]string{"etc/dnsmasq.d/" + row.file: row.text})))
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprint(config.Number("max-cache-ttl"), config.Has("no-negcache"), " ", config.Number("neg-ttl"))
			for _, a := range config.Aside {
				got += fmt.Sprintf(" %s:%d", a.Option, a.Place.Line)
			}
			for _, cost := range config.Costs() {
				word, _, _ := strings.Cut(cost, " ")
				got += " costs " + word
			}
			if got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
	beside := lab.Tree(t, map[string]string{"etc/dnsmasq.d/" + stockName: v37, "etc/dnsmasq.d/site.conf": "max-cache-ttl=30\nno-negcache\n"})
	config, err := Load(DefaultPaths(beside))
	if err != nil || config.Number("max-cache-ttl") != 30 || !strings.Contains(strings.Join(config.Costs(), ""), "site.conf:2") {
		t.Errorf("with an admin's own file: got %v, %d, %q", err, config.Number("max-cache-ttl"), config.Costs())
	}
}
