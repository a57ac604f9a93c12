# make help lists the targets.
GO   ?= go
MAINS = ./etcdadm ./etcd-manager ./etcd-manager-ctl ./etcd-backup
# The race detector needs cgo, and no tables for debuggers; planner, simulator and harness of clusters are without.
FAST := $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race) -ldflags=-w -vet=off -shuffle=on -timeout=40m
LONG  = ./e2e/... ./pkg/daemon ./pkg/etcd/migrate
ETCD  = ETCDADM_ETCD_DIR="$$($(GO) run ./images path)"
# STRICT=1 fails where tests are skipped that hack/skips.txt does not name. Vet is in "make verify".
TEST  = $(GO) run ./hack/runtests -go $(GO) -expect hack/skips.txt $(if $(STRICT),-strict) --
.PHONY: help build demo test verify e2e long kind mutants bench dist sim clean
help: ## list the targets
	@sed -n 's/^\([a-z0-9]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

build: ## build the programs into ./bin
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -tags disable_grpc_modules,grpcnotrace -trimpath -ldflags '-s -w' -o bin/ $(MAINS)
demo: build ## show a cluster's life on this machine; KEEP=1 leaves it running, RECORD=docs records it
	@$(GO) run ./images etcd 3.6.16 >/dev/null
	@$(GO) run ./e2e/demo -bin ./bin -etcd-dir "$$($(GO) run ./images path)" $(if $(KEEP),-keep) $(if $(RECORD),-record $(RECORD))
test: ## run the tests of all modules, three packages to a core as they mostly wait, with the simulator beside; whole clusters come last, with the stores
	@$(GO) run ./images etcd test >/dev/null
	@$(ETCD) sh -c 'd=0; o=$$(mktemp); CGO_ENABLED=0 nice -n 19 $(TEST) $(subst -race,,$(FAST)) ./pkg/cluster/plan ./pkg/cluster/sim ./pkg/internal/timerslack >$$o 2>&1 & $(TEST) $(FAST) -p=$$((3 * $$(nproc))) $$($(GO) list ./pkg/node/apply ./pkg/command/internal/client work | grep -v "/e2e\|/cluster/sim$$\|/cluster/plan$$") || d=1; wait $$! || d=1; cat $$o; rm $$o; export CGO_ENABLED=0; $(TEST) $(subst -race,,$(FAST)) -run=TimerSlack ./pkg/etcd/etcdproc || d=1; unset CGO_ENABLED; $(subst runtests,runtests -beside=e2e/stores,$(TEST)) $(subst -race,,$(FAST)) -p=1 ./e2e/... || d=1; exit $$d'

verify: ## lint, check what is generated, build each module alone
	@GO=$(GO) hack/verify
e2e: build ## run the long tests (build tag e2e), on real systemd where Docker is there; SHORT=1 a part of the matrix
	@$(GO) run ./images etcd e2e >/dev/null
	$(ETCD) $(subst runtests,runtests -only-tag=e2e -beside=e2e/etcdbackup:e2e/images:e2e/packages:pkg/daemon:etcd/migrate,$(TEST)) -count=1 -vet=off -p=1 -timeout=60m $(if $(SHORT),-short) $(or $(E2E),$(LONG))
long: ; @echo $(LONG)
kind: ## run the scenarios in kind, KIND='-run NAME' some of them, SHORT=1 a short one; without a node image Kubernetes is compiled first
	cd e2e/kind && GOWORK=off $(GO) test -tags e2e -count=1 -v -timeout=120m $(if $(SHORT),-short) $(KIND) .
mutants: ; @$(GO) run ./hack/mutants -go $(GO) $(if $(MUTANTS),-only '$(MUTANTS)') ## break decisions one by one, which tests have to notice; MUTANTS=REGEXP some

bench: build ## run the benchmarks; the table of docs/performance.md comes last
	$(ETCD) $(GO) test -run '^$$' -bench . -benchmem work && $(ETCD) $(GO) run ./e2e/bench -bin ./bin
dist: ## build archives, .deb and .rpm into ./dist; VERSION=v0.1.0 names a release
	$(GO) run ./hack/dist $(if $(VERSION),-version=$(VERSION))
sim: ## simulate histories for 10 minutes, or SIM_FOR
	ETCDADM_SIM_FOR=$(or $(SIM_FOR),10m) $(GO) test -count=1 -timeout=0 ./pkg/cluster/sim/...
clean: ; rm -rf bin dist .cache ## delete what was built, except the cache of etcd binaries
