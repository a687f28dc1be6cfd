package dnsname

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	label63 := strings.Repeat("a", 63)
	longest := strings.Repeat(label63+".", 3) + strings.Repeat("b", 61) // 254 with its final dot
	tests := []struct {
		name, in string
		want     string
		err      error
	}{
		{name: "relative", in: "cluster.local", want: "cluster.local."},
		{name: "final dot", in: "cluster.local.", want: "cluster.local."},
		{name: "upper case", in: "Cluster.LOCAL", want: "cluster.local."},
		{name: "one label", in: "local", want: "local."},
		{name: "root", in: ".", want: "."},
		{name: "underscore", in: "_dns._udp.example", want: "_dns._udp.example."},
		{name: "hyphens at the ends", in: "-a-.example", want: "-a-.example."},
		{name: "wildcard", in: "*.apps.example", want: "*.apps.example."},
		{name: "digits", in: "30.172.in-addr.arpa", want: "30.172.in-addr.arpa."},
		{name: "longest label", in: label63, want: label63 + "."},
		{name: "longest name", in: longest, want: longest + "."},
		{name: "longest name with final dot", in: longest + ".", want: longest + "."},
		{name: "empty", in: "", err: ErrEmpty},
		{name: "label too long", in: label63 + "a.example", err: ErrLabel},
		{name: "name too long", in: longest + "b", err: ErrTooLong},
		{name: "64 KB", in: strings.Repeat("a.", 32<<10), err: ErrTooLong},
		{name: "empty label", in: "a..example", err: ErrLabel},
		{name: "leading dot", in: ".example", err: ErrLabel},
		{name: "two dots", in: "..", err: ErrLabel},
		{name: "two final dots", in: "example..", err: ErrLabel},
		{name: "star in a label", in: "a*.example", err: ErrCharacter},
		{name: "two stars", in: "**.example", err: ErrCharacter},
		{name: "blank", in: "a b.example", err: ErrCharacter},
		{name: "line feed", in: "example\nnameserver 8.8.8.8", err: ErrCharacter},
		{name: "NUL", in: "a\x00.example", err: ErrCharacter},
		{name: "slash, a separator in dnsmasq", in: "a/8.8.8.8", err: ErrCharacter},
		{name: "shell", in: "$(reboot).example", err: ErrCharacter},
		{name: "escape", in: `a\.b.example`, err: ErrCharacter},
		{name: "not ASCII", in: "bücher.example", err: ErrCharacter},
		{name: "invalid UTF-8", in: "\xff\xfe.example", err: ErrCharacter},
		{name: "Kelvin sign, lower case k", in: "\u212a.example", err: ErrCharacter},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.in)
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if got.String() != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if err != nil && len(err.Error()) > 1200 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestForms(t *testing.T) {
	tests := []struct {
		name             string
		in               Name
		relative, parent string
		labels           int
		zero, root       bool
	}{
		{name: "zero", in: Name{}, zero: true},
		{name: "root", in: Root(), relative: ".", root: true},
		{name: "one label", in: mustParse(t, "local"), relative: "local", parent: ".", labels: 1},
		{name: "two labels", in: mustParse(t, "cluster.local"), relative: "cluster.local", parent: "local.", labels: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.in.Relative(); got != tt.relative {
				t.Errorf("Relative() = %q, want %q", got, tt.relative)
			}
			if got := tt.in.Parent().String(); got != tt.parent {
				t.Errorf("Parent() = %q, want %q", got, tt.parent)
			}
			if got := tt.in.Labels(); got != tt.labels {
				t.Errorf("Labels() = %d, want %d", got, tt.labels)
			}
			if tt.in.IsZero() != tt.zero || tt.in.IsRoot() != tt.root {
				t.Errorf("IsZero() = %v, IsRoot() = %v", tt.in.IsZero(), tt.in.IsRoot())
			}
		})
	}
}

func TestWithin(t *testing.T) {
	tests := []struct {
		name, zone string
		want       bool
	}{
		{"cluster.local", "cluster.local", true},
		{"a.CLUSTER.local", "cluster.local", true},
		{"mycluster.local", "cluster.local", false},
		{"local", "cluster.local", false},
		{"cluster.local", ".", true},
		{".", ".", true},
		{".", "local", false},
		{"", ".", false},
		{"", "", false},
		{"local", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name+" in "+tt.zone, func(t *testing.T) {
			name, zone := mustParse(t, tt.name), mustParse(t, tt.zone)
			if got := name.Within(zone); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if got := zone.Covers([]byte(name.String())); got != tt.want {
				t.Errorf("covers: got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestLookup(t *testing.T) {
	all := map[Name]int{MustParse("a.example"): 1, Root(): 2}
	for text, want := range map[string]int{"a.example.": 1, ".": 2, "b.example.": 0, "a.example": 0, "A.example.": 0, "": 0} {
		if got, ok := Lookup(all, []byte(text)); got != want || ok != (want != 0) {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
	text := []byte("a-name-of-more-than-thirty-two-octets.example.")
	if n := testing.AllocsPerRun(10, func() { Lookup(all, text) }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func TestText(t *testing.T) {
	type holder struct{ Name Name }
	for _, in := range []Name{{}, Root(), mustParse(t, "cluster.local")} {
		text, err := json.Marshal(holder{in})
		if err != nil {
			t.Fatal(err)
		}
		var out holder
		if err := json.Unmarshal(text, &out); err != nil || out.Name != in {
			t.Errorf("%s: round trip returned %q, %v", text, out.Name, err)
		}
	}
	var out holder
	if err := json.Unmarshal([]byte(`{"Name":"a b"}`), &out); !errors.Is(err, ErrCharacter) {
		t.Errorf("error %v, want %v", err, ErrCharacter)
	}
}

func TestWalkingUpDoesNotAllocate(t *testing.T) {
	name := mustParse(t, "a.b.c.d.cluster.local")
	steps := 0
	allocs := testing.AllocsPerRun(10, func() {
		steps = 0
		for n := name; !n.IsZero(); n = n.Parent() {
			steps++
		}
	})
	if steps != 7 || allocs != 0 {
		t.Errorf("%d steps and %v allocations, want 7 and 0", steps, allocs)
	}
}

// mustParse is like MustParse, but "" is the zero Name.
func mustParse(t *testing.T, s string) Name {
	t.Helper()
	var n Name
	if err := n.UnmarshalText([]byte(s)); err != nil {
		t.Fatal(err)
	}
	return n
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", ".", "..", "cluster.local", "A.b.", "*.x", "a*", "a\nb", "\xff", strings.Repeat("a.", 127)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		name, err := Parse(in)
		if err != nil {
			if !name.IsZero() {
				t.Fatalf("error %v with name %q", err, name)
			}
			return
		}
		text := name.String()
		if len(text) > maxText || !strings.HasSuffix(text, ".") {
			t.Fatalf("%q is not fully qualified or too long", text)
		}
		if strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-_.*") != "" {
			t.Fatalf("%q has an unsafe character", text)
		}
		for _, form := range []string{text, name.Relative(), strings.ToUpper(text)} {
			if again, err := Parse(form); err != nil || again != name {
				t.Fatalf("Parse(%q) = %q, %v; want %q", form, again, err, name)
			}
		}
		if !name.IsRoot() && (name.Parent().Labels() != name.Labels()-1 || !name.Within(name.Parent())) {
			t.Fatalf("%q has parent %q", name, name.Parent())
		}
	})
}

func TestMustParse(t *testing.T) {
	if got := MustParse("A.example").String(); got != "a.example." {
		t.Errorf("got %q", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	MustParse("a b")
}
