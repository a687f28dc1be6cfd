package resolve

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

func TestSearched(t *testing.T) {
	search := []dnsname.Name{dnsname.MustParse("corp.example"), dnsname.MustParse("example")}
	for _, row := range []struct {
		name    string
		isWhole bool
		want    string
	}{
		{"api", false, "api.corp.example. api.example. api."},
		{"api.prod", false, "api.prod. api.prod.corp.example. api.prod.example."},
		{"api.prod", true, "api.prod."},
	} {
		var got []string
		for _, name := range searched(dnsname.MustParse(row.name), row.isWhole, search) {
			got = append(got, name.String())
		}
		if diff := cmp.Diff(row.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: -want +got:\n%s", row.name, diff)
		}
	}
}
