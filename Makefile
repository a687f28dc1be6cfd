# make               build the programs of a node into bin/
# make install       install what `make` built, and all other files of the package, below DESTDIR
# make install-cockpit  install only the Cockpit page, which needs no build
# make rpm           build the RPM for ARCH and the source RPM into dist/
# make rpm-all       build the RPMs for every architecture
# make image         build the OCI image for every architecture into dist/
# make kubectl       build `kubectl node-dns` and its krew manifest into dist/, for Linux, macOS and Windows
# make manifests     write the objects of charts/node-dns with its default values to dist/manifests/node-dns.yaml
# make test          run every test lane; as root on Debian or RHEL it installs the missing packages, and reports it
# make test-kube     run the lane with a Kubernetes API; the first run builds etcd and kube-apiserver, which takes minutes
# make test-vm       run the VM lane: whole emulated machines with SELinux enforcing, under Debian's policy and those
#                    of SELINUX_POLICY; as root on Debian. `make test` runs a part of it
# make test-arch     run the demo and the short tests as programs of s390x, arm64 and ppc64le in an emulator (qemu-user)
# make test-trixie   run the lane that boots systemd again, with systemd 257 and NetworkManager 1.52
# make test-image    build the image for all architectures, twice, and check it
# make bench-kube    compare node-dns and CoreDNS on a cluster of 10,000 services: memory, traffic, CPU time
# make bench         compare node-dns with other nameservers on two cores, as root on Debian: 15 minutes to get them,
#                    and an hour and a half. BENCHFLAGS selects, as in
#                    `make bench BENCHFLAGS='-peers=echo,node-dns,unbound -workloads=hits -rounds=1'`
# make bench-quick   run a selection of both in 3 minutes, and save nothing
# make bench-faults  run node-dns, dnsmasq and unbound under each fault of docs/appendix/faults.md, in half an hour:
#                    which answers came, and when. BENCHFLAGS selects, as in
#                    `make bench-faults BENCHFLAGS='-faults=black-holed -seconds=2'`
# make bench-micro   compare the Go benchmarks of the packages here and at the revision REV (default: HEAD)
# make dashboard-png draw docs/dashboard.png again from ten simulated minutes of a node; as root, with Prometheus,
#                    Node.js and Chromium
# make demo          play the whole story on loopback, without root
# make check         run lint, the law tests and the short tests before each commit; without root, in a minute
# make lint          run gofmt, gofumpt, vet, staticcheck, actionlint, and check the subjects of commits
# make soak          send 20,000 queries a second (RATE) for 10 minutes (SOAK) while faults rotate; no query may be
#                    lost, and nothing may grow
# make fuzz          run each fuzz target for FUZZTIME; `make test` runs those in the table of scripts/fuzz, 15 s each

GO       ?= go
FUZZTIME ?= 20s
SOAK     ?= 10m
RATE     ?= 20000
VERSION  ?= $(shell ./scripts/version)
LDFLAGS   = -s -w -X main.version=$(VERSION)$(if $(REVISION), -X main.revision=$(REVISION))
BUILDMODE ?= default
ARCHES    = x86_64 aarch64 ppc64le s390x
PROGRAMS  = ./cmd/node-dns ./cmd/node-dns-intercept ./cmd/origin-dns-dispatcher
COMPILE   = $(GO) build -trimpath -buildmode=$(BUILDMODE) -ldflags '$(LDFLAGS)'
export CGO_ENABLED ?= 1

.PHONY: build programs install install-cockpit plugin rpm rpm-all image kubectl manifests test test-arch test-image test-kube test-trixie test-vm bench bench-quick bench-faults bench-micro bench-kube dashboard-png demo check short lint fuzz soak clean

# The program prints its completions. bin/native/ has it for this machine, as bin/ may be for another.
build:
	CGO_ENABLED=0 $(COMPILE) -o bin/ $(PROGRAMS)
	CGO_ENABLED=0 GOARCH= $(COMPILE) -o bin/native/ ./cmd/node-dns
	bin/native/node-dns completion bash >bin/node-dns.bash
	bin/native/node-dns completion zsh >bin/node-dns.zsh
	bin/native/node-dns completion fish >bin/node-dns.fish

# The programs of the image, in BIN.
programs:
	CGO_ENABLED=0 $(COMPILE) -o $(BIN)/ ./cmd/node-dns ./cmd/node-dns-intercept

# The plugin of kubectl, as the file BIN.
plugin:
	CGO_ENABLED=0 $(COMPILE) -o $(BIN) ./cmd/kubectl-node_dns

# Directories as on RHEL. The spec passes its macros if they differ. The hook is a separate script that
# runs the program in LIBEXECDIR: RHEL's SELinux policy lets systemd execute nothing below
# dispatcher.d, and only files there run in the domain of hooks.
SBINDIR    ?= /usr/sbin
DATADIR    ?= /usr/share
SYSCONFDIR ?= /etc
LIBDIR     ?= /usr/lib
LIBEXECDIR ?= /usr/libexec
PUT         = install -D -p -m

install:
	$(PUT) 0755 bin/node-dns $(DESTDIR)$(SBINDIR)/node-dns
	$(PUT) 0755 bin/origin-dns-dispatcher $(DESTDIR)$(LIBEXECDIR)/node-dns/origin-dns-dispatcher
	$(PUT) 0755 bin/node-dns-intercept $(DESTDIR)$(LIBEXECDIR)/node-dns/node-dns-intercept
	ln -sf ../libexec/node-dns/origin-dns-dispatcher $(DESTDIR)$(SBINDIR)/origin-dns-dispatcher
	$(PUT) 0755 packaging/networkmanager/99-origin-dns $(DESTDIR)$(LIBDIR)/NetworkManager/dispatcher.d/99-origin-dns
	for unit in systemd/*.*; do $(PUT) 0644 $$unit $(DESTDIR)$(LIBDIR)/systemd/system/$${unit##*/} || exit; done
	$(PUT) 0644 packaging/node-dns.sysusers $(DESTDIR)$(LIBDIR)/sysusers.d/node-dns.conf
	$(PUT) 0644 packaging/node-dns.sysctl $(DESTDIR)$(LIBDIR)/sysctl.d/60-node-dns.conf
	$(PUT) 0644 packaging/dbus/node-dns.conf $(DESTDIR)$(DATADIR)/dbus-1/system.d/node-dns.conf
	$(PUT) 0644 packaging/node-dns.yaml $(DESTDIR)$(SYSCONFDIR)/node-dns/node-dns.yaml
	$(PUT) 0644 packaging/node-dns.sysconfig $(DESTDIR)$(SYSCONFDIR)/sysconfig/node-dns
	$(PUT) 0644 packaging/sos/node-dns $(DESTDIR)$(SYSCONFDIR)/sos/extras.d/node-dns
	for page in man/*.[0-9]; do $(PUT) 0644 $$page $(DESTDIR)$(DATADIR)/man/man$${page##*.}/$${page##*/} || exit; done
	$(PUT) 0644 packaging/journal/node-dns.catalog $(DESTDIR)$(LIBDIR)/systemd/catalog/node-dns.catalog
	$(PUT) 0644 bin/node-dns.bash $(DESTDIR)$(DATADIR)/bash-completion/completions/node-dns
	$(PUT) 0644 bin/node-dns.zsh $(DESTDIR)$(DATADIR)/zsh/site-functions/_node-dns
	$(PUT) 0644 bin/node-dns.fish $(DESTDIR)$(DATADIR)/fish/vendor_completions.d/node-dns.fish
	$(MAKE) --no-print-directory install-cockpit

# The page for Cockpit, which is a package of its own.
install-cockpit:
	for file in cockpit/manifest.json cockpit/*.html cockpit/*.css cockpit/*.js cockpit/*/*.js; do \
		$(PUT) 0644 $$file $(DESTDIR)$(DATADIR)/cockpit/node-dns/$${file#cockpit/} || exit; done
	$(PUT) 0644 cockpit/org.node_dns.cockpit.metainfo.xml $(DESTDIR)$(DATADIR)/metainfo/org.node_dns.cockpit.metainfo.xml

rpm:
	./packaging/rpm/build $(ARCH)

rpm-all:
	./packaging/rpm/build $(ARCHES)

image:
	./packaging/image/build $(ARCHES)

kubectl:
	./packaging/krew/build $(PLATFORMS)

MANIFESTS ?= dist/manifests/node-dns.yaml

manifests:
	mkdir -p $(dir $(MANIFESTS))
	cd test/chart && CGO_ENABLED=0 $(GO) run . ../../charts/node-dns >$(abspath $(MANIFESTS))

# Tests that are skipped or short with -race, which uses memory and ten times the CPU time. They
# measure memory, or compute in one goroutine, or count what a race does not change.
UNRACED = TestServeWireAllocates|TestAppendResponseAllocates|TestHugeCache|TestHotNamesSurviveAScan|TestOneSilentServer|TestLawsOnRandomHosts|TestLawsViaResolved|TestTooBig|TestKeptByDecoder|TestListInPieces|TestBounds|TestWideServices|TestReady|TestReadyIsBounded|TestHistories

# vet with -race: the tests then use the same compiled packages. They run no vet of their own.
test:
	./scripts/test-packages
	$(GO) vet -race ./...
	./scripts/test-lanes
	$(GO) test -vet=off -timeout 10m ./internal/kube/cluster # its tests with fake time skip with -race: the race detector crashes on them
	$(GO) test -vet=off -run '^($(UNRACED))$$' ./internal/resolve ./internal/dns/zone ./internal/dns/cache ./internal/dns/forward ./internal/hostdns ./internal/kube/kubewire ./internal/kube/clusterdns ./cmd/node-dns
	./scripts/test-chart
	./scripts/test-arch
	./scripts/test-vm quick

test-arch:
	./scripts/test-arch

test-kube:
	./scripts/test-kube

test-trixie:
	./scripts/test-trixie

test-image:
	ARCHES='$(ARCHES)' $(GO) test -timeout 60m ./test/image

test-vm:
	./scripts/test-packages
	./scripts/test-vm

bench-kube:
	./scripts/test-kube bench

# BENCHFLAGS comes last and overrides the other flags.
bench:
	$(GO) run ./bench -out=bench/results $(BENCHFLAGS)

bench-quick:
	$(GO) run ./bench -peers=echo,node-dns,unbound,dnsdist -workloads=hits,misses,pods,hits-10k -rounds=6 -tries=1 $(BENCHFLAGS)

bench-faults:
	$(GO) run ./bench -faults=. -seconds=6 -out=bench/results $(BENCHFLAGS)

bench-micro:
	./scripts/bench-micro $(REV)

dashboard-png:
	mkdir -p bin
	NODEDNS_LANES=require $(GO) test ./test/netns -run '^TestDashboardRun$$' -count=1 -timeout 20m -dashboard.time 10m -dashboard.out $(CURDIR)/bin/dashboard.json
	./scripts/dashboard-png/render bin/dashboard.json docs/dashboard.png

demo:
	$(GO) run ./cmd/node-dns demo

# lint computes while the tests wait.
check:
	@$(MAKE) --no-print-directory -j2 --output-sync lint short

# Without the lanes: the tests that need root or another program. lint runs vet.
short:
	NODEDNS_LANES=skip $(GO) test -short -vet=off ./...

# Older commits have longer subjects.
lint:
	@! git --git-dir=.git log -20 --no-merges --since=2026-11-28T07:00Z --format=%s 2>/dev/null | grep -E '.{73}' || { echo 'shorten these commit subjects to 72 characters'; exit 1; }
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'run gofmt'; exit 1; }
	@test -z "$$($(GO) tool -modfile=tools.mod gofumpt -l .)" || { $(GO) tool -modfile=tools.mod gofumpt -l .; echo 'run gofumpt'; exit 1; }
	$(GO) vet ./...
	$(GO) tool -modfile=tools.mod staticcheck ./...
	cd test/e2e && CGO_ENABLED=0 $(GO) tool -modfile=../../tools.mod staticcheck ./...
	cd test/chart && CGO_ENABLED=0 $(GO) tool -modfile=../../tools.mod staticcheck ./...
	cd packaging && $(GO) vet ./... && CGO_ENABLED=0 $(GO) tool -modfile=../tools.mod staticcheck ./...
	$(GO) tool -modfile=tools.mod actionlint

soak:
	$(GO) test ./test/soak -v -soak $(SOAK) -soak.rate $(RATE) -soak.names 1000000 -timeout 24h

fuzz:
	./scripts/fuzz $(FUZZTIME)

clean:
	rm -rf bin dist
