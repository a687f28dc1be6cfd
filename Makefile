# make             both programs into bin/
# make test        every test lane; as root on Debian or RHEL it installs the packages the lanes need, and says so
# make test-kube   the lane with a Kubernetes API: the first time it builds etcd and kube-apiserver, which takes minutes
# make bench-kube  node-dns and CoreDNS on a cluster of 10,000 services: memory, traffic, processor time
# make demo        the whole story on loopback, without root
# make lint        gofmt, gofumpt, vet, staticcheck
# make fuzz        each fuzz target for FUZZTIME

GO       ?= go
FUZZTIME ?= 20s
VERSION  ?= $(shell git describe --tags --always 2>/dev/null || echo dev)
LDFLAGS   = -s -w -X main.version=$(VERSION)
export CGO_ENABLED ?= 1

.PHONY: build test test-kube bench-kube demo lint fuzz clean

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

# vet with -race: what is compiled for it serves the tests too.
test:
	./scripts/test-packages
	$(GO) vet -race ./...
	$(GO) test -race -timeout 20m ./...
	$(GO) test -timeout 10m -run '^(TestRandomHistories|TestQuiet)$$' ./internal/cluster # the race detector crashes on them
	./scripts/test-kube

test-kube:
	./scripts/test-kube

bench-kube:
	./scripts/test-kube bench

demo:
	$(GO) run ./cmd/node-dns demo

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'run gofmt'; exit 1; }
	@test -z "$$($(GO) tool -modfile=tools.mod gofumpt -l .)" || { $(GO) tool -modfile=tools.mod gofumpt -l .; echo 'run gofumpt'; exit 1; }
	$(GO) vet ./...
	$(GO) tool -modfile=tools.mod staticcheck ./...
	cd test/e2e && CGO_ENABLED=0 $(GO) tool -modfile=../../tools.mod staticcheck ./...

fuzz:
	./scripts/fuzz $(FUZZTIME)

clean:
	rm -rf bin dist
