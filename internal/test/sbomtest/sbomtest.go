// Package sbomtest checks the software bills of materials of the RPM and the image: SPDX 2.3 in
// JSON.
package sbomtest

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/test/rpmbuild"
)

// document has the parts of a document that the checks read.
type document struct {
	SPDXVersion       string
	DataLicense       string
	SPDXID            string
	Name              string
	DocumentNamespace string
	CreationInfo      struct {
		Created  string
		Creators []string
	}
	Packages      []pkg
	Files         []file
	Relationships []struct {
		From string `json:"spdxElementId"`
		Kind string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
}

type pkg struct {
	SPDXID, Name, VersionInfo, DownloadLocation, LicenseConcluded, SourceInfo string
	ExternalRefs                                                              []struct{ ReferenceCategory, ReferenceType, ReferenceLocator string }
}

type file struct {
	SPDXID, FileName, LicenseConcluded string
	Checksums                          []struct{ Algorithm, ChecksumValue string }
}

// identifier matches an element identifier as SPDX 2.3 allows it.
var identifier = regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`)

// Check checks the document at path. files are those it must list, by name in the product, with
// their paths. The document must name each module of the programs among them, with version, hash
// and license. own is the SPDX expression of the licenses of node-dns and all its modules.
func Check(t testing.TB, path, own string, files map[string]string) {
	t.Helper()
	var doc document
	if err := json.Unmarshal(read(t, path), &doc); err != nil {
		t.Fatal(err)
	}
	head := []string{doc.SPDXVersion, doc.DataLicense, doc.SPDXID}
	if want := []string{"SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT"}; !slices.Equal(head, want) {
		t.Errorf("got the head %q, want %q", head, want)
	}
	if !strings.HasPrefix(doc.DocumentNamespace, "https://") || !strings.Contains(path, doc.Name+".spdx.json") || len(doc.CreationInfo.Creators) == 0 ||
		!regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`).MatchString(doc.CreationInfo.Created) {
		t.Errorf("got the namespace %q, the name %q and %+v", doc.DocumentNamespace, doc.Name, doc.CreationInfo)
	}
	names := doc.names(t)
	want := map[string]bool{}
	for name, path := range files {
		want["./"+name] = true
		checkFile(t, doc, names, "./"+name, path)
	}
	for _, f := range doc.Files {
		if !want[f.FileName] {
			t.Errorf("it lists %s, which is not in the product", f.FileName)
		}
	}
	checkLicenses(t, doc, own)
}

// names returns the name and version of each element by its identifier. Identifiers are unique, and
// relationships have both ends.
func (doc document) names(t testing.TB) map[string]string {
	t.Helper()
	names := map[string]string{doc.SPDXID: doc.Name}
	add := func(id, name string) {
		if !identifier.MatchString(id) || names[id] != "" {
			t.Errorf("%s has the invalid or second identifier %q", name, id)
		}
		names[id] = name
	}
	for _, p := range doc.Packages {
		add(p.SPDXID, p.Name+" "+p.VersionInfo)
		if p.DownloadLocation == "" || len(p.ExternalRefs) != 1 || p.ExternalRefs[0].ReferenceCategory != "PACKAGE-MANAGER" ||
			p.ExternalRefs[0].ReferenceType != "purl" || !strings.HasPrefix(p.ExternalRefs[0].ReferenceLocator, "pkg:") {
			t.Errorf("%s has no location or purl: %+v", p.Name, p)
		}
	}
	for _, f := range doc.Files {
		add(f.SPDXID, f.FileName)
	}
	for _, r := range doc.Relationships {
		if names[r.From] == "" || names[r.To] == "" {
			t.Errorf("the relationship %s %s %s has an unknown end", r.From, r.Kind, r.To)
		}
	}
	return names
}

// checkFile checks a file's digest, and a program's modules, both ways.
func checkFile(t testing.TB, doc document, names map[string]string, name, path string) {
	t.Helper()
	i := slices.IndexFunc(doc.Files, func(f file) bool { return f.FileName == name })
	if i < 0 {
		t.Errorf("it does not list %s", name)
		return
	}
	sum := sha256.Sum256(read(t, path))
	if got, want := doc.Files[i].Checksums[1].ChecksumValue, hex.EncodeToString(sum[:]); got != want {
		t.Errorf("%s: got the SHA256 %s, want %s", name, got, want)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return // not a program
	}
	goVersion, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	sums := string(read(t, filepath.Join(rpmbuild.Root(t), "go.sum")))
	want := []string{"stdlib " + goVersion}
	for _, dep := range info.Deps {
		want = append(want, dep.Path+" "+dep.Version)
		purl := "pkg:golang/" + strings.ToLower(dep.Path) + "@" + strings.ReplaceAll(dep.Version, "+", "%2B")
		if !slices.ContainsFunc(doc.Packages, func(p pkg) bool {
			sum, ok := strings.CutPrefix(p.SourceInfo, "go.sum ")
			return ok && p.ExternalRefs[0].ReferenceLocator == purl && strings.Contains(sums, dep.Path+" "+dep.Version+" "+sum+"\n")
		}) {
			t.Errorf("no package is %s and has its hash of go.sum", purl)
		}
	}
	var got []string
	for _, r := range doc.Relationships {
		if r.From == doc.Files[i].SPDXID && r.Kind == "STATIC_LINK" {
			got = append(got, names[r.To])
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("modules of %s (-of the program +of the document):\n%s", name, diff)
	}
}

// checkLicenses: the licenses of node-dns and its modules are those of own.
func checkLicenses(t testing.TB, doc document, own string) {
	t.Helper()
	var got []string
	for _, p := range doc.Packages {
		if !strings.HasPrefix(p.ExternalRefs[0].ReferenceLocator, "pkg:golang/") {
			continue
		}
		if p.LicenseConcluded == "" {
			t.Errorf("%s has no license", p.Name)
		}
		got = append(got, strings.Split(p.LicenseConcluded, " AND ")...)
	}
	slices.Sort(got)
	if got := strings.Join(slices.Compact(got), " AND "); got != own {
		t.Errorf("the modules have the licenses %s, and the package says %s", got, own)
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
