package clusterdns

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// tooLong is far more CPU time than any input takes, even with the race detector.
const tooLong = 20 * time.Second

// cpuTime returns the CPU time that this process has used. It does not grow while a busy machine
// runs other processes.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// check checks the invariants of a Settings.
func check(t *testing.T, s Settings, objects []Object) {
	t.Helper()
	if len(s.Routes) > maxRoutes || len(s.Hosts) > maxHosts || len(s.Unfollowed) > maxUnfollowed+1 {
		t.Errorf("%d routes, %d hosts, %d reports", len(s.Routes), len(s.Hosts), len(s.Unfollowed))
	}
	for _, r := range s.Routes {
		kinds := 0
		for _, is := range []bool{r.Local, r.Pods, r.Barred, len(r.Servers) > 0} {
			if is {
				kinds++
			}
		}
		if r.Domain.IsZero() || r.Where == "" || kinds != 1 || len(r.Servers) > maxServers || len(r.Servers) == 0 && r.Domain.IsRoot() {
			t.Errorf("route %v", r)
		}
		if slices.ContainsFunc(clusterZones, r.Domain.Within) {
			t.Errorf("%s is in the cluster's zone", r.Domain)
		}
		for _, server := range r.Servers {
			if again, err := nameserver.Parse(server.String()); err != nil || again != server {
				t.Errorf("%q is read back as %v, %v", server, again, err)
			}
		}
	}
	for _, h := range s.Hosts {
		if !h.Addr.IsValid() || h.Addr.Zone() != "" || h.Addr.Is4In6() || len(h.Names) == 0 || h.TTL < Unset || h.TTL > maxHostTTL || h.Where == "" {
			t.Errorf("host %v", h)
		}
		if slices.ContainsFunc(h.Names, func(n dnsname.Name) bool { return n.IsZero() || strings.Contains(n.String(), "*") }) {
			t.Errorf("host %v", h)
		}
	}
	addrs := map[dnsname.Name]int{}
	for _, h := range s.Hosts {
		for _, name := range h.Names {
			if addrs[name]++; addrs[name] == maxAddresses+1 {
				t.Errorf("%s has more than %d addresses", name, maxAddresses)
			}
		}
	}
	for i, m := range s.Malformed {
		isGiven := func(o Object) bool { return o.Kind == m.Kind && o.Namespace == m.Namespace && o.Name == m.Name }
		isSame := func(o Malformed) bool { return o.Kind == m.Kind && o.Namespace == m.Namespace && o.Name == m.Name }
		if !slices.ContainsFunc(objects, isGiven) || slices.ContainsFunc(s.Malformed[:i], isSame) {
			t.Errorf("malformed: %v", m)
		}
		if len(s.Unfollowed) <= maxUnfollowed && !slices.Contains(s.Unfollowed, Unfollowed{m.Where, m.Text}) {
			t.Errorf("the fault of %v is not in Unfollowed", m)
		}
	}
	reports := slices.Clone(s.Unfollowed)
	for _, m := range s.Malformed {
		reports = append(reports, Unfollowed{m.Where, m.Text})
	}
	for _, u := range reports {
		if u.Where == "" || u.Text == "" || len(u.Where)+len(u.Text) > 4000 ||
			strings.ContainsFunc(u.Where+u.Text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("report %q, %q", u.Where, u.Text)
		}
	}
}

// FuzzRead: for any objects, the result is within its limits and ready in time, it does not depend
// on the order of the objects, and Malformed refers only to given objects.
func FuzzRead(f *testing.F) {
	f.Add(kubeadm, "", "", "", "")
	f.Add(aks, "hosts {\n10.0.0.1 a.b\nfallthrough\n}", "corp.example:53 {\nforward . tls://10.0.0.1 {\ntls_servername x\n}\n}", `{"a.b":["1.1.1.1"]}`, `{"servers":[{"zones":["a.b"],"forwardPlugin":{"upstreams":["1.1.1.1"]}}]}`)
	f.Add(k3s, "1.2.3.4 a b c # d", "(a) {\nimport a\n}", `{"":[]}`, `{"upstreamResolvers":{"upstreams":[{"type":"Network","address":"::1","port":53}]}}`)
	f.Add("(a) {\nlog\nimport b\n}\n(b) {\nimport a\n}\n10.0.0.0/8 tls://x:1 {\nimport a\nforward . 1.1.1.1 {\nexcept a\n}\n}", "", "", "", "")
	f.Add("a, b {\nhosts custom c {\n1.1.1.1 x.c\n}\nimport custom/*.override\n}\n. {\nview\nproxy x {$Y} \"\\\"\n}", "", "import custom/*.server", "[", "1")
	f.Fuzz(func(t *testing.T, corefile, override, server, stubs, spec string) {
		objects := []Object{
			object("coredns", "Corefile", corefile, "NodeHosts", override),
			object("coredns-custom", "a.override", override, "b.override", server, "a.server", server, "b.server", corefile),
			object("coredns-custom", "a.override", server),
			object("kube-dns", "stubDomains", stubs, "upstreamNameservers", spec),
			{Kind: "DNS", Name: "default", Spec: json.RawMessage(spec)},
			{Kind: "DNS", Name: stubs, Spec: json.RawMessage(stubs)},
		}
		begin := cpuTime(t)
		settings := Read(objects, clusterZones, true)
		if took := cpuTime(t) - begin; took > tooLong {
			t.Errorf("Read took %v", took)
		}
		check(t, settings, objects)
		slices.Reverse(objects)
		if again := Read(objects, clusterZones, true); !reflect.DeepEqual(again, settings) {
			t.Errorf("%v, in another order %v", settings, again)
		}
	})
}

// TestBounds: Corefiles of the maximum size that the API accepts, each expensive in a different
// way.
func TestBounds(t *testing.T) {
	if lab.RaceEnabled {
		t.Skip("computes in one goroutine; make test runs it without -race")
	}
	lines := func(format string) string {
		if !strings.Contains(format, "%") {
			return strings.Repeat(format, (maxValue-30_000)/len(format))
		}
		var text strings.Builder
		for i := 0; text.Len() < maxValue-30_000; i++ {
			text.WriteString(strings.ReplaceAll(format, "%", fmt.Sprint(i)))
		}
		return text.String()
	}
	deep := strings.Repeat("a.", 120)
	rows := []struct {
		name   string
		object Object
		other  Object
	}{
		{name: "words", object: coredns(lines("a "))},
		{name: "braces", object: coredns(lines("{ "))},
		{name: "closing braces", object: coredns(lines("}\n"))},
		{name: "quotes", object: coredns(lines(`"\"`))},
		{name: "line ends in a word", object: coredns(". {\nlog \"" + lines("\n") + "\" \"x\"\n}")},
		{name: "zones", object: coredns(lines("a%,b%,\n"))},
		{name: "blocks", object: coredns(lines("a% {\nforward . 1.1.1.1\n}\n"))},
		{name: "blocks that leak", object: coredns(". {\nforward . 1.1.1.1\n}\n" + lines(deep+"a% {\n}\n"))},
		{name: "forwards", object: coredns(". {\n" + lines("forward a% 1.1.1.1\n") + "}\n")},
		{name: "deep forwards", object: coredns("(a) {\nforward " + deep + "b 1.1.1.1\n}\n. {\n" + lines("import a\n") + "}\n")},
		{name: "except", object: coredns("(a) {\nforward b 1.1.1.1\n}\n. {\nforward . 1.1.1.1 {\nexcept " + lines("b% ") + "b\n}\n" + strings.Repeat("import a\n", 900) + "}\n")},
		{name: "hosts", object: coredns(". {\nhosts {\n" + lines("1.1.1.1 a%\n") + "}\n}\n")},
		{name: "hosts with many names", object: coredns(". {\nhosts {\n1.1.1.1 " + lines("a ") + "\n}\n}\n")},
		{name: "fallthrough", object: coredns(". {\nhosts x " + strings.Repeat("a.b ", 1000) + "{\nfallthrough " + lines("x% ") + "\n}\n}\n")},
		{name: "hosts files", object: object("coredns", "Corefile", lines("a% {\nhosts f\n}\n"), "f", lines("1.1.1.1 a%\n"))},
		{
			name: "snippets that double in size",
			object: coredns("(a0) {\nlog\n}\n" + func() (text string) {
				for i := range 19 {
					text += fmt.Sprintf("(a%d) {\nimport a%d\nimport a%d\n}\n", i+1, i, i)
				}
				return text
			}() + ". {\nimport a19\n}\n"),
		},
		{name: "long snippet", object: coredns("(a) {\n" + lines("log\n") + "}\n. {\n" + strings.Repeat("import a\n", 2000) + "}\n")},
		{name: "a long hosts snippet", object: coredns("(a) {\n" + lines("1.1.1.1 b\n") + "}\n. {\nhosts {\n" + strings.Repeat("import a\n", 2000) + "}\n}\n")},
		{name: "imports", object: coredns(". {\n" + lines("import *a*b*c*d*e\n") + "}\n"), other: func() Object {
			o := object("coredns-custom")
			for i := range maxCustom {
				o.Data[fmt.Sprintf("%s%d", strings.Repeat("abcd", 60), i)] = "log"
			}
			return o
		}()},
		{name: "imports of many keys", object: coredns(". {\n" + lines("import *\n") + "}\n"), other: func() Object {
			o := object("coredns-custom")
			for i := range maxCustom {
				o.Data[fmt.Sprint(i)] = "log"
			}
			return o
		}()},
		{name: "stub domains", object: object("kube-dns", "stubDomains", `{`+strings.TrimSuffix(lines(`"a%":["1.1.1.1"],`), ",")+`}`)},
		{name: "stub domains without servers", object: object("kube-dns", "stubDomains", `{`+strings.TrimSuffix(lines(`"a%":["x"],`), ",")+`}`)},
		{name: "zones of the operator", object: operator(`{"servers":[{"zones":[` + strings.TrimSuffix(lines(`"a%",`), ",") + `],"forwardPlugin":{"upstreams":["1.1.1.1"]}}]}`)},
		{name: "nested JSON", object: operator(strings.Repeat("[", maxValue))},
		{name: "too long", object: coredns(strings.Repeat("a ", maxValue))},
	}
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			begin := cpuTime(t)
			objects := []Object{tt.object, tt.other}
			settings := Read(objects, clusterZones, true)
			took := cpuTime(t) - begin
			if check(t, settings, objects); took > tooLong {
				t.Errorf("Read took %v", took)
			}
			first := Unfollowed{}
			if len(settings.Unfollowed) > 0 {
				first = settings.Unfollowed[0]
			}
			t.Logf("%v: %d routes, %d hosts, %d reports: %.200v", took, len(settings.Routes), len(settings.Hosts), len(settings.Unfollowed), first)
		})
	}
}
