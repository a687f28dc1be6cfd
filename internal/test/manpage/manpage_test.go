package manpage

import (
	"slices"
	"testing"
)

func TestParse(t *testing.T) {
	p := parse(`.Sh DESCRIPTION
.It Cm no list
.Bl -tag -width Ds
.It Cm serve
Text.
.Bl -tag -width Ds
.It Fl o , -output Ar format
.It Fl -config Ar file
.El
.It Cm completion Ar shell
.It Fl h , -help
.El
.Bd -literal -offset indent
a
.It Cm not an item
.Ed
.Sh EXIT STATUS
.Bl -tag
.It 0
.El
`)
	for _, row := range []struct {
		section, macro, under string
		want                  []string
	}{
		{"DESCRIPTION", "Cm", "", []string{"completion", "serve"}},
		{"DESCRIPTION", "Fl", "serve", []string{"config", "o", "output"}},
		{"DESCRIPTION", "Fl", "completion", nil},
		{"DESCRIPTION", "Fl", "", []string{"h", "help"}},
		{"EXIT STATUS", "", "", []string{"0"}},
	} {
		if got := p.Names(row.section, row.macro, row.under); !slices.Equal(got, row.want) {
			t.Errorf("%+v: got %q", row, got)
		}
	}
	if want := []string{"a\n.It Cm not an item\n"}; !slices.Equal(p.Examples, want) {
		t.Errorf("examples %q", p.Examples)
	}
}
