# Builds, runs and checks Ingot. Needs Go, make and git; the other tools are pinned
# in tools/ and built by Go when a target needs them.

.DEFAULT_GOAL := help

# What "ingot version" prints; empty outside a git repository.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT := $(shell git rev-parse HEAD 2>/dev/null)
BUILDINFO := github.com/ingot-metal/ingot/internal/buildinfo

MACHINES ?= 3
# CLUSTER=1 makes a cluster of the machines, which needs a folder of its own.
DATA ?= .ingot$(if $(CLUSTER),-cluster)

# Four packages at a time: some mostly wait, and some start an API server of their own. Tests of the program's
# package need none of its optimization by profile, which compiles everything again. "make vet" vets, and no
# debugger reads the tests' programs.
TEST_FLAGS ?= -p 4 -timeout 30m -pgo=off -vet=off -ldflags=-w
# CI runs every test, also those that have passed in another clone.
TEST_FLAGS += $(if $(CI),-count=1)
# RACE=1 turns the race detector on. It needs a C compiler, nothing else does. Unsafe pointers, which this project has
# none of, are not checked.
# Packages that encode and compare, and SQLite, which is translated C, take half of the time of all tests when they are
# instrumented, so they are not. Nothing is inlined in them where they call synchronization: an atomic operation that is
# inlined into code without instrumentation looks like a race everywhere.
UNINSTRUMENTED := encoding/json reflect strconv unicode/utf8 compress/flate gopkg.in/evanphx/json-patch.v4 \
	sigs.k8s.io/json/internal/golang/encoding/json sigs.k8s.io/structured-merge-diff/... k8s.io/apimachinery/third_party/...
ifdef RACE
RACE_FLAGS := -race -gcflags='all=-d=checkptr=0' -gcflags='modernc.org/sqlite/lib=-d=checkptr=0 -race=false' \
	$(foreach p,$(UNINSTRUMENTED),-gcflags='$(p)=-d=checkptr=0 -race=false -l')
export CGO_ENABLED = 1
else
export CGO_ENABLED = 0
endif

CONTROLPLANE := CGO_ENABLED=0 go -C tools/controlplane run .
WITH_ASSETS := KUBEBUILDER_ASSETS="$$($(CONTROLPLANE) -path)"
# The S3 server of tests, which look for it in Go's build cache.
S3SERVER := CGO_ENABLED=0 go -C tools/s3server tool -n versitygw
# Modules with code of their own.
TOOL_MODULES := tools/clusterctl tools/controlplane tools/envtest tools/image
TOOL := go tool -modfile=$(CURDIR)/tools/go.mod
# helm, which tests render the chart with, likewise.
HELM := CGO_ENABLED=0 go -C tools/helm tool -n helm
# clusterctl, which tests move clusters with, likewise.
CLUSTERCTL := CGO_ENABLED=0 go -C tools/clusterctl tool -n clusterctl
# Packages whose tests run on both databases; the store's do so by themselves.
ON_POSTGRES := ./internal/conductor ./internal/httpapi ./internal/engine
# Controllers with a service account of their own, and so with their own role.
CONTROLLERS := host discovery firmware cluster remediation autoscale
# Packages below internal with the controllers of a group, where they are not internal/operator/GROUP.
CONTROLLERS_host := $(addprefix operator/,host dataimage preprovisioningimage classification subscription)
CONTROLLERS_cluster := $(addprefix cluster/,infrastructure machine reuse data workload capacity)
CONTROLLERS_remediation := $(addprefix cluster/,fencing remediation workload)
CONTROLLERS_autoscale := cluster/autoscale
# The helm chart, whose kinds and roles are copies of those in config.
CHART := charts/ingot
# Where "make generate" writes.
GENERATED := config/crd config/rbac config/webhook $(CHART)/crds $(CHART)/rbac $(CHART)/admission $(CHART)/webhook docs/api.md docs/status.md ':(glob)**/zz_generated*'

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/ingot (VERSION=v1.2.3: its version, by default from git)
	go build -ldflags '-X $(BUILDINFO).version=$(VERSION) -X $(BUILDINFO).commit=$(COMMIT)' -o bin/ingot ./cmd/ingot

# IMAGE=name:tag, PLATFORMS=linux/amd64,linux/arm64, CA_BUNDLE=file of authorities that the image trusts.
IMAGE ?= ingot:$(or $(VERSION),dev)
PLATFORMS ?= linux/$(shell go env GOARCH)
CA_BUNDLE ?= $(wildcard /etc/ssl/certs/ca-certificates.crt)
.PHONY: image
image: ## Write the container image bin/image.tar without a daemon (IMAGE=name:tag PLATFORMS=linux/amd64,linux/arm64)
	go -C tools/image run . -name '$(IMAGE)' -version '$(VERSION)' -commit '$(COMMIT)' \
		-created "$$(git log -1 --format=%ct 2>/dev/null || echo 0)" -platforms '$(PLATFORMS)' \
		$(if $(CA_BUNDLE),-ca-bundle '$(abspath $(CA_BUNDLE))') -output '$(CURDIR)/bin/image'

# The files that clusterctl reads, in the layout of its local repositories. Variables are quoted, because a ConfigMap has
# strings, and a number would be none once clusterctl has put it there.
RELEASE ?= bin/release
.PHONY: release-manifests
release-manifests: controlplane ## Write what clusterctl needs of a release (VERSION=v1.2.3 IMAGE=name:tag RELEASE=bin/release)
	@case '$(VERSION)' in v[0-9]*.[0-9]*.[0-9]*) ;; *) echo "Which version? make release-manifests VERSION=v1.2.3 IMAGE=name:tag" >&2; exit 1 ;; esac
	@awk -v v='$(VERSION)' '/major:/ { m = $$NF } /minor:/ && index(v, "v" m "." $$NF ".") == 1 { found = 1 } END { exit !found }' \
		config/clusterctl/metadata.yaml || { echo "config/clusterctl/metadata.yaml does not have the series of $(VERSION), without which clusterctl refuses it: add it" >&2; exit 1; }
	@set -e; to='$(RELEASE)/infrastructure-ingot/$(VERSION)'; mkdir -p "$$to"; \
		"$$($(CONTROLPLANE) -path)/kubectl" kustomize config/clusterctl -o "$$to/infrastructure-components.yaml.tmp"; \
		sed -e 's|^\( *image:\) [^ ]*$$|\1 $(IMAGE)|' -e 's|: \($${[^"}]*}\)$$|: "\1"|' "$$to/infrastructure-components.yaml.tmp" >"$$to/infrastructure-components.yaml"; \
		rm "$$to/infrastructure-components.yaml.tmp"; \
		cp config/clusterctl/metadata.yaml config/clusterctl/cluster-template*.yaml config/clusterctl/clusterclass-*.yaml "$$to/"; \
		echo "$$to"

.PHONY: up
up: build $(if $(CLUSTER),cluster-api,controlplane) ## Run all of Ingot on this machine with simulated machines (MACHINES=3 DATA=.ingot; CLUSTER=1: they make a cluster)
	@bin/ingot up $(if $(CLUSTER),--cluster )--machines $(MACHINES) --data $(DATA)

.PHONY: controlplane
controlplane: ## Get etcd, kube-apiserver and kubectl, published or built, once per machine
	@$(CONTROLPLANE)

.PHONY: controller-manager
controller-manager: ## Build kube-controller-manager too, which ends namespaces and collects garbage
	@$(CONTROLPLANE) -controller-manager

.PHONY: cluster-api
cluster-api: ## Build the managers of Cluster API and kube-controller-manager, once per machine
	@$(CONTROLPLANE) -controller-manager -cluster-api

.PHONY: s3server
s3server: ## Build the S3 server that tests keep inventories in, once per machine
	@$(S3SERVER) >/dev/null

.PHONY: helm
helm: ## Build helm, which tests render the chart with, once per machine
	@$(HELM) >/dev/null

.PHONY: clusterctl
clusterctl: ## Build clusterctl, which tests move clusters with, once per machine
	@$(CLUSTERCTL) >/dev/null

# Tests allocate much and keep little, so collecting garbage less often saves a third of their processor time.
TEST_GC := GOGC=400
# The packages that take longest begin, those that compute beside those that wait, so that none is left alone at the end.
LONGEST := ./test/story ./internal/store ./internal/conductor ./test/story/cluster ./internal/up ./internal/operator \
	./internal/operator/host ./test/manifests ./internal/cluster/fencing ./internal/cluster/remediation ./internal/controlplane

.PHONY: test
test: cluster-api s3server helm clusterctl ## Run every test (RACE=1: with the race detector, needs gcc)
	$(WITH_ASSETS) $(TEST_GC) go test $(TEST_FLAGS) $(RACE_FLAGS) $(LONGEST) ./...
	@$(MAKE) --no-print-directory -j 2 -Otarget test-tools test-postgres

.PHONY: test-tools
test-tools: ## Run the tests of the tools (RACE=1: with the race detector)
	for m in $(TOOL_MODULES); do go -C $$m test $(TEST_FLAGS) $(RACE_FLAGS) . || exit; done

# Without the race detector: the suites have run with it on SQLite, and so have the store's own tests on PostgreSQL.
.PHONY: test-postgres
test-postgres: s3server ## Run the engine's suites on PostgreSQL, if Debian's postgresql is installed
	@if [ -n "$$INGOT_TEST_POSTGRES$$INGOT_TEST_POSTGRES_REQUIRED" ] || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then \
		set -x; CGO_ENABLED=0 INGOT_TEST_DATABASE=postgres $(TEST_GC) go test $(TEST_FLAGS) $(ON_POSTGRES); \
	else \
		echo "SKIPPED: the suites on PostgreSQL. Install Debian's package postgresql or set INGOT_TEST_POSTGRES to run them."; \
	fi

.PHONY: compat
compat: controlplane ## Run the compatibility tests with third-party clients
	$(WITH_ASSETS) go test $(TEST_FLAGS) $(RACE_FLAGS) -tags compat ./test/compat/...

.PHONY: boot-vm
boot-vm: ## Boot a virtual machine through the boot service (ACCEL=kvm; needs QEMU and dnsmasq, downloads a kernel of Debian once)
	ACCEL=$(ACCEL) test/bootvm/run.sh

# SECONDS=n and SEED=m are how long its longest tests let things fail, that of clusters six times as long, and what they
# choose; RUN=name is one of its tests. They build the engines, with the race detector too
# when RACE=1.
.PHONY: fault
fault: cluster-api ## Kill engines and operators at their commits and writes, pause them and cut them off (SECONDS=n SEED=m RUN=test)
	$(WITH_ASSETS) $(if $(RACE),GOFLAGS=-race) go test $(TEST_FLAGS) $(RACE_FLAGS) -timeout 2h -count=1 -v -tags fault ./test/fault \
		$(if $(filter-out 0,$(SECONDS)),-seconds $(SECONDS)) $(if $(SEED),-seed $(SEED)) $(if $(RUN),-run '$(RUN)')

.PHONY: attack
attack: ## Attack and flood an engine and watch what others are answered (needs taskset; PostgreSQL if it is installed)
	go test -count=1 -v -timeout 20m -tags attack ./test/attack

# Runs of the deterministic simulation: SEED=n replays one, SEEDS=n FIRST=m runs many,
# SECONDS=n as many as that time allows.
FIRST ?= 1
SEEDS ?= 1000
SECONDS ?= 0
SIMULATE_TIMEOUT ?= 180m
.PHONY: simulate
simulate: ## Simulate crashes, lost answers and lying machines (SEED=n, or SEEDS=n FIRST=m, or SECONDS=n)
	CGO_ENABLED=0 go test ./test/simulate -count=1 -v -timeout $(SIMULATE_TIMEOUT) -run TestWhatMustHoldHolds \
		$(if $(SEED),-first $(SEED) -seeds 1 -show,-first $(FIRST) -seeds $(SEEDS) -seconds $(SECONDS))

.PHONY: simulate-repeat
simulate-repeat: ## Simulate the same seeds twice and compare the traces
	CGO_ENABLED=0 go test ./test/simulate -count=1 -run TestTheSameSeedGivesTheSameTrace

.PHONY: simulate-defects
simulate-defects: ## Show the seed of the simulation that catches each known defect
	@test/simulate/defects/check.sh

.PHONY: bench
bench: build cluster-api ## Measure speed and memory (ONLY=enrol,read: some sections)
	go run ./test/bench -only '$(ONLY)'

.PHONY: bench-compare
bench-compare: ## Compare the speed with that of the commit BASE (ONLY=enrol,read: some sections)
	@test -n '$(BASE)' || { echo "Which commit? make bench-compare BASE=main" >&2; exit 1; }
	go run ./test/bench -compare '$(BASE)' -only '$(ONLY)'

.PHONY: profile
profile: build controlplane ## Renew the profile that the compiler optimizes the program by, after changes of hot paths
	go run ./test/bench -profile cmd/ingot/default.pgo -only enrol,enrol,enrol,write,write,read,inspect,inspect

.PHONY: check
check: lint vet drift ## Run the linters and go vet, and check that generated code is up to date

.PHONY: lint
lint: ## Run the linters and check the import rules
	$(TOOL) golangci-lint run --allow-parallel-runners ./...
	for m in $(TOOL_MODULES); do ( cd $$m && $(TOOL) golangci-lint run --allow-parallel-runners --config $(CURDIR)/.golangci.yml ./... ) || exit; done

.PHONY: vet
vet: ## Run go vet with every build tag
	go vet -tags compat,fault,attack,bootvm ./...

.PHONY: fmt
fmt: ## Format the code
	$(TOOL) golangci-lint fmt ./...

.PHONY: generate
generate: ## Generate deep copies, CRDs, roles and documentation
	$(TOOL) controller-gen object paths=./api/...
	$(TOOL) controller-gen crd paths=./api/... output:crd:dir=config/crd
	@for f in config/crd/infrastructure.*.yaml; do sed '/^spec:$$/r config/crd/conversion.yaml' $$f >$$f.tmp && mv $$f.tmp $$f || exit; done
	@set -x; $(foreach c,$(CONTROLLERS),$(TOOL) controller-gen rbac:roleName=ingot-$(c) \
		$(foreach p,$(or $(CONTROLLERS_$(c)),operator/$(c)),paths=./internal/$(p)/...) output:rbac:dir=config/rbac/$(c) || exit; )
	$(TOOL) controller-gen rbac:roleName=ingot-webhook webhook paths=./internal/webhook/... \
		output:rbac:dir=config/rbac/webhook output:webhook:dir=config/webhook
	@rm -f $(CHART)/crds/*.yaml $(CHART)/rbac/*.yaml $(CHART)/admission/*.yaml $(CHART)/webhook/*.yaml
	cp config/crd/*_*.yaml $(CHART)/crds/
	@mkdir -p $(CHART)/admission && cp config/admission/*_policy.yaml $(CHART)/admission/
	@mkdir -p $(CHART)/webhook && cp config/webhook/manifests.yaml config/webhook/deletion_patch.yaml $(CHART)/webhook/
	@for d in $(CONTROLLERS) clusterapi metrics users webhook; do for f in config/rbac/$$d/*.yaml; do case $$f in */kustomization.yaml) ;; \
		*) cp $$f $(CHART)/rbac/$$d-$$(basename $$f) || exit ;; esac; done; done
	go generate ./...

.PHONY: drift
drift: generate ## Fail if generated files are out of date
	@git diff --exit-code -- $(GENERATED) && \
	new=$$(git ls-files --others --exclude-standard -- $(GENERATED)) && \
	if [ -n "$$new" ]; then echo "generated but not committed:"; echo "$$new"; exit 1; fi
