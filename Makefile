# make             both programs into bin/
# make install     what `make` built, and all that belongs to it, below DESTDIR
# make install-cockpit  the page for Cockpit alone, which needs no build
# make rpm         the RPM for ARCH and the source RPM into dist/; rpm-all: the RPMs for every architecture
# make test        every test lane; as root on Debian or RHEL it installs the packages the lanes need, and says so
# make test-kube   the lane with a Kubernetes API: the first time it builds etcd and kube-apiserver, which takes minutes
# make test-vm     the VM lane: whole machines, emulated, with SELinux enforcing under Debian's policy and those of SELINUX_POLICY;
#                  as root on Debian. `make test` runs a part of it
# make test-arch   the demo and the short tests as programs of s390x, arm64 and ppc64le, in an emulator (qemu-user)
# make test-trixie  the lane with systemd as PID 1 once more, with systemd 257 and NetworkManager 1.52
# make bench-kube  node-dns and CoreDNS on a cluster of 10,000 services: memory, traffic, processor time
# make bench       node-dns beside other nameservers, on two cores: a quarter of an hour to get them, and an hour and a half; as root on Debian.
#                  BENCHFLAGS chooses, as `make bench BENCHFLAGS='-peers=echo,node-dns,unbound -workloads=hits -rounds=1'`
# make bench-quick  some of both, in 3 minutes; nothing is written
# make bench-faults  node-dns, dnsmasq and unbound under each fault of docs/explanation/faults.md, in half an hour: what was answered, and when.
#                  BENCHFLAGS chooses, as `make bench-faults BENCHFLAGS='-faults=black-holed -seconds=2'`
# make bench-micro  the packages' own benchmarks, here and at the revision REV (default: HEAD), compared
# make dashboard-png  docs/dashboard.png anew: ten minutes in the life of a node, drawn; as root, with Prometheus, Node.js and Chromium
# make demo        the whole story on loopback, without root
# make lint        gofmt, gofumpt, vet, staticcheck
# make soak        10 minutes (SOAK) of 20,000 queries a second (RATE) while faults rotate: nothing lost, nothing that grows
# make fuzz        each fuzz target for FUZZTIME; `make test` runs some of them, for 15 s each: the table in scripts/fuzz

GO       ?= go
FUZZTIME ?= 20s
SOAK     ?= 10m
RATE     ?= 20000
VERSION  ?= $(shell git describe --tags --always 2>/dev/null || echo dev)
LDFLAGS   = -s -w -X main.version=$(VERSION)
BUILDMODE ?= default
ARCHES    = x86_64 aarch64 ppc64le s390x
export CGO_ENABLED ?= 1

.PHONY: build install install-cockpit rpm rpm-all test test-arch test-kube test-trixie test-vm bench bench-quick bench-faults bench-micro bench-kube dashboard-png demo lint fuzz soak clean

# The completions come from the program, built for this machine where bin/ is for another.
build:
	CGO_ENABLED=0 $(GO) build -trimpath -buildmode=$(BUILDMODE) -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...
	CGO_ENABLED=0 GOARCH= $(GO) build -trimpath -buildmode=$(BUILDMODE) -ldflags '$(LDFLAGS)' -o bin/native/ ./cmd/node-dns
	bin/native/node-dns completion bash >bin/node-dns.bash
	bin/native/node-dns completion zsh >bin/node-dns.zsh
	bin/native/node-dns completion fish >bin/node-dns.fish

# Directories as on RHEL; the spec passes its macros where they differ. The hook is a script of its own that runs the program
# in LIBEXECDIR: RHEL's SELinux policy lets systemd execute nothing below dispatcher.d, and runs only a file from there in
# the domain of hooks.
SBINDIR    ?= /usr/sbin
DATADIR    ?= /usr/share
SYSCONFDIR ?= /etc
LIBDIR     ?= /usr/lib
LIBEXECDIR ?= /usr/libexec
PUT         = install -D -p -m

install:
	$(PUT) 0755 bin/node-dns $(DESTDIR)$(SBINDIR)/node-dns
	$(PUT) 0755 bin/origin-dns-dispatcher $(DESTDIR)$(LIBEXECDIR)/node-dns/origin-dns-dispatcher
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

# vet with -race: what is compiled for it serves the tests too.
test:
	./scripts/test-packages
	$(GO) vet -race ./...
	./scripts/test-lanes
	$(GO) test -timeout 10m ./internal/kube/cluster # the race detector crashes on its tests with fake time, which skip there
	$(GO) test -run '^(TestServeWireAllocates|TestAppendResponseAllocates)$$' ./internal/resolve ./internal/dns/zone # and has these allocate
	./scripts/test-arch
	./scripts/test-machines

test-arch:
	./scripts/test-arch

test-kube:
	./scripts/test-kube

test-trixie:
	./scripts/test-trixie

test-vm:
	./scripts/test-packages
	./scripts/test-vm

bench-kube:
	./scripts/test-kube bench

# What BENCHFLAGS says comes last, and wins.
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

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'run gofmt'; exit 1; }
	@test -z "$$($(GO) tool -modfile=tools.mod gofumpt -l .)" || { $(GO) tool -modfile=tools.mod gofumpt -l .; echo 'run gofumpt'; exit 1; }
	$(GO) vet ./...
	$(GO) tool -modfile=tools.mod staticcheck ./...
	cd test/e2e && CGO_ENABLED=0 $(GO) tool -modfile=../../tools.mod staticcheck ./...

soak:
	$(GO) test ./test/soak -v -soak $(SOAK) -soak.rate $(RATE) -soak.names 1000000 -timeout 24h

fuzz:
	./scripts/fuzz $(FUZZTIME)

clean:
	rm -rf bin dist
