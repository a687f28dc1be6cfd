package dnsmasqconf

import (
	"strings"
	"testing"
)

func TestRoutes(t *testing.T) {
	tests := []struct{ name, rules, want string }{
		{"by domain", "10.0.0.1 /a.example/10.0.0.2 10.0.0.3 /a.example/10.0.0.2 /a.example/10.0.0.4", ". [10.0.0.1 10.0.0.3]; a.example. [10.0.0.2 10.0.0.4]"},
		{"servers win over local", "/a.example/ /a.example/10.0.0.2 /a.example/", "a.example. [10.0.0.2]"},
		{"local", "/a.example/ /a.example/", "a.example. local"},
		{"standard wins over servers", "/a.example/10.0.0.2 /a.example/# /a.example/10.0.0.3 /a.example/", "a.example. standard"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rules, err := ParseRules(strings.Fields(tt.rules))
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, route := range Routes(rules) {
				var servers []string
				for _, server := range route.Servers {
					servers = append(servers, server.String())
				}
				what := map[Kind]string{Ask: "[" + strings.Join(servers, " ") + "]", Local: "local", Standard: "standard"}[route.Kind]
				all = append(all, route.Domain.String()+" "+what)
			}
			if got := strings.Join(all, "; "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// FuzzParseRules: an accepted rule is rendered on one line, and parses to the same rule.
func FuzzParseRules(f *testing.F) {
	for _, text := range []string{"10.0.0.1#53@lo", "/a.example/b.example/10.0.0.1", "/a/", "/a/#", "//", "#", "/bücher/0.0.0.0", "/*/::1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := ParseRules([]string{text})
		if err != nil {
			if !strings.ContainsAny(text, "\n\x00") && strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("got error %q", err)
			}
			return
		}
		for _, rule := range rules {
			again, err := ParseRules([]string{rule.String()})
			if err != nil || len(again) != 1 || again[0] != rule || strings.ContainsFunc(rule.String(), func(r rune) bool { return r <= ' ' || r > '~' }) {
				t.Errorf("%q parses to %q, and that parses to %q, %v", text, rule, again, err)
			}
		}
	})
}
