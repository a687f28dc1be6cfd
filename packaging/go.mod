module github.com/node-dns/node-dns/packaging

go 1.26.8

require (
	github.com/google/licensecheck v0.3.1
	github.com/spdx/tools-golang v0.5.7
	golang.org/x/mod v0.43.0
)

require github.com/anchore/go-struct-converter v0.1.0 // indirect
