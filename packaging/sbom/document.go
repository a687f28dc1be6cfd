package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	xmodule "golang.org/x/mod/module"
)

const (
	home        = "https://github.com/node-dns/node-dns"
	noAssertion = "NOASSERTION"
)

// document describes the product: one package for its sources, one for each module and for Go's
// standard library, and one file for each program. A program is GENERATED_FROM the sources and
// STATIC_LINKs modules.
func (p product) document() *v2_3.Document {
	own := packageOf("node-dns", p.version, p.license, home, "pkg:github/node-dns/node-dns@"+url.PathEscape(p.version))
	doc := &v2_3.Document{
		SPDXVersion:    v2_3.Version,
		DataLicense:    v2_3.DataLicense,
		SPDXIdentifier: "DOCUMENT",
		DocumentName:   p.name,
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "node-dns-sbom"}},
			Created:  p.time.Format(time.RFC3339),
		},
		Packages: []*v2_3.Package{own},
	}
	relate := func(from common.ElementID, kind string, to common.ElementID) {
		doc.Relationships = append(doc.Relationships, &v2_3.Relationship{
			RefA: common.DocElementID{ElementRefID: from}, Relationship: kind, RefB: common.DocElementID{ElementRefID: to},
		})
	}
	relate(doc.SPDXIdentifier, common.TypeRelationshipDescribe, own.PackageSPDXIdentifier)

	library := map[string]common.ElementID{}
	for _, version := range p.compilers() {
		pkg := packageOf("stdlib", version, "BSD-3-Clause", "https://go.dev/dl/go"+version+".src.tar.gz", "pkg:golang/stdlib@"+version)
		library[version] = pkg.PackageSPDXIdentifier
		doc.Packages = append(doc.Packages, pkg)
	}
	linked := map[module]common.ElementID{}
	for _, m := range p.modules() {
		pkg := m.spdx(p.licenses[m], p.sums[m])
		linked[m] = pkg.PackageSPDXIdentifier
		doc.Packages = append(doc.Packages, pkg)
	}
	names := sha256.New() // of what distinguishes this document from others of the same name
	for _, program := range p.programs {
		f := program.spdx("BINARY", p.license)
		fmt.Fprintln(names, program.name, program.sha256)
		doc.Files = append(doc.Files, f)
		relate(doc.SPDXIdentifier, common.TypeRelationshipDescribe, f.FileSPDXIdentifier)
		relate(f.FileSPDXIdentifier, common.TypeRelationshipGeneratedFrom, own.PackageSPDXIdentifier)
		relate(f.FileSPDXIdentifier, common.TypeRelationshipStaticLink, library[program.compiler])
		for _, m := range program.modules {
			relate(f.FileSPDXIdentifier, common.TypeRelationshipStaticLink, linked[m])
		}
	}
	for _, d := range p.debian {
		pkg := packageOf(d.name, d.version, d.license, noAssertion, "pkg:deb/debian/"+d.name+"@"+url.PathEscape(d.version))
		f := d.file.spdx("TEXT", d.license)
		fmt.Fprintln(names, d.file.name, d.file.sha256)
		doc.Packages, doc.Files = append(doc.Packages, pkg), append(doc.Files, f)
		relate(doc.SPDXIdentifier, common.TypeRelationshipDescribe, f.FileSPDXIdentifier)
		relate(f.FileSPDXIdentifier, common.TypeRelationshipGeneratedFrom, pkg.PackageSPDXIdentifier)
	}
	doc.DocumentNamespace = home + "/spdx/" + url.PathEscape(p.name) + "-" + hex.EncodeToString(names.Sum(nil)[:16])
	return doc
}

func packageOf(name, version, license, location, purl string) *v2_3.Package {
	return &v2_3.Package{
		PackageName: name, PackageSPDXIdentifier: identifier("Package", name+"-"+version), PackageVersion: version,
		PackageDownloadLocation: location,
		PackageLicenseConcluded: license, PackageLicenseDeclared: license, PackageCopyrightText: noAssertion,
		PackageExternalReferences: []*v2_3.PackageExternalReference{{Category: common.CategoryPackageManager, RefType: "purl", Locator: purl}},
	}
}

// spdx describes a module. Its hash in go.sum is not a checksum of a file, so it is source
// information.
func (m module) spdx(license, sum string) *v2_3.Package {
	// Programs contain only paths that Go accepted, so escaping cannot fail.
	path, err := xmodule.EscapePath(m.path)
	if err != nil {
		panic(err)
	}
	version := strings.ReplaceAll(m.version, "+", "%2B") // of +incompatible
	pkg := packageOf(m.path, m.version, license, "https://proxy.golang.org/"+path+"/@v/"+m.version+".zip",
		"pkg:golang/"+strings.ToLower(m.path)+"@"+version)
	pkg.PackageSourceInfo = "go.sum " + sum
	return pkg
}

func (f file) spdx(kind, license string) *v2_3.File {
	return &v2_3.File{
		FileName: "./" + f.name, FileSPDXIdentifier: identifier("File", f.name), FileTypes: []string{kind},
		Checksums:        []common.Checksum{{Algorithm: common.SHA1, Value: f.sha1}, {Algorithm: common.SHA256, Value: f.sha256}},
		LicenseConcluded: license, FileCopyrightText: noAssertion,
	}
}

// unsafe matches what may not be in an SPDX identifier.
var unsafe = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func identifier(kind, name string) common.ElementID {
	return common.ElementID(kind + "-" + unsafe.ReplaceAllString(name, "-"))
}
