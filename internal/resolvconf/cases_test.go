package resolvconf

import (
	"encoding/json"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A caseRow is an input of 99-origin-dns.sh and its expected output, for every case that changes
// resolv.conf.
type caseRow struct {
	Cases         []string `json:"cases"` // IDs of the cases with these two texts
	Title         string   `json:"title"`
	ClusterDomain string   `json:"clusterDomain"`
	ExtraSearch   []string `json:"extraSearch"` // the domains that NetworkManager adds
	Before        string   `json:"before"`
	After         string   `json:"after"`
}

const watermark = "# nameserver updated by /etc/NetworkManager/dispatcher.d/99-origin-dns.sh"

// otherPlace lists the cases where our output has different bytes with the same meaning. The script
// always appended the nameserver, and it normalized a tab. We keep places and bytes.
var otherPlace = map[string]string{
	"C025": "nameserver before options",
	"C051": "a tab after search",
	"C066": "nameserver before search",
}

func TestCases(t *testing.T) {
	text, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []caseRow
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, row := range rows {
		count += len(row.Cases)
		t.Run(row.Cases[0]+" "+row.Title, func(t *testing.T) { row.test(t) })
	}
	if count != 56 {
		t.Errorf("got %d cases, want 56", count)
	}
}

func (row caseRow) test(t *testing.T) {
	want := Parse([]byte(row.After))
	got := Parse([]byte(row.Before))
	row.edit(got, want.Nameservers())
	diff := cmp.Diff(row.After, string(got.Bytes()))
	if why, ok := otherPlace[row.Cases[0]]; ok != (diff != "") {
		t.Errorf("want a difference %v %q, got: %s", ok, why, diff)
	}
	if diff := cmp.Diff(meaningOf(want), meaningOf(got)); diff != "" {
		t.Error(diff)
	}
	again := Parse(got.Bytes())
	row.edit(again, want.Nameservers())
	if diff := cmp.Diff(string(got.Bytes()), string(again.Bytes())); diff != "" {
		t.Errorf("the second run changed bytes: %s", diff)
	}
}

// edit changes a resolv.conf as the planner does.
func (row caseRow) edit(f *File, nameservers []netip.Addr) {
	f.SetNameservers(nameservers)
	search := []string{row.ClusterDomain}
	for _, name := range append(f.Search(), row.ExtraSearch...) {
		if !slices.ContainsFunc(search, func(have string) bool { return strings.EqualFold(have, name) }) {
			search = append(search, name)
		}
	}
	f.SetSearch(search)
	if !f.HasLine(watermark) {
		f.PrependLine(watermark)
	}
}

type meaning struct {
	Nameservers, Search, Options, Others []string
	Watermark                            bool
}

func meaningOf(f *File) meaning {
	m := meaning{Search: f.Search(), Options: f.Options(), Watermark: f.HasLine(watermark)}
	for _, addr := range f.Nameservers() {
		m.Nameservers = append(m.Nameservers, addr.String())
	}
	for _, line := range f.lines {
		if !is(keyNameserver)(line) && !is(keySearch)(line) {
			m.Others = append(m.Others, line)
		}
	}
	return m
}
