PYTHON ?= python3

.PHONY: kubernetes slurm web accuracy bench build deadcode fuzz golden ledger lint race
.PHONY: release test

build:
	go build -trimpath -o memestimate ./cmd/memestimate

# The tests of the Python package need what python/requirements-dev.txt names. Go gives a package ten minutes, which the
# two largest can pass where other programs keep the processors busy.
test:
	go test -timeout 40m ./...
	cd python && $(PYTHON) -m pytest -q

bench:
	go test -run '^$$' -bench . -benchmem ./...

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	go vet ./...
	cd python && ruff format --check . && ruff check . && mypy && PYTHONPATH=src lint-imports
	go run honnef.co/go/tools/cmd/staticcheck@v0.7.0 -checks all ./...

# Functions that the command never calls are gone, or have a reason in scripts/deadcode.txt.
deadcode:
	scripts/deadcode.sh

# Runs every fuzz target for FUZZTIME. What is found lies in testdata/fuzz of its package, and is a test from then on.
FUZZTIME ?= 20s
fuzz:
	scripts/fuzz.sh $(FUZZTIME)

# Every test under Go's race detector, in half an hour on two cores. Tests of memory are skipped: the detector takes its
# own.
race:
	go test -race -timeout 2h ./...

# Compares the estimate with every measured run and writes estimate/testdata/cells.md.
accuracy:
	go test ./estimate -run 'TestCells$$' -count=1 -v -cells.write

# Runs every guess on and off over all measured cases, and writes estimate/testdata/guesses.md. Takes some minutes.
ledger:
	go test ./estimate -run 'TestLedger$$' -count=1 -timeout 2h -accuracy.ledger

# Writes what tests expect to be printed anew: after a change of the figures. Look at what it changes.
golden:
	go test ./cmd/memestimate -run 'SchemasPublished|BudgetSchema|OperatorsPage|Docs' -count=1 -update -update-readme

# All packages of a release into dist, twice, but for publishing and signing them.
release:
	scripts/release_dry_run.sh

# The page that runs memestimate in a browser: one file that needs no network, dist/web/index.html
web:
	go run ./report/web/build

# Places jobs with a real API server and scheduler of Kubernetes, which are built once into .kubernetes (six minutes on two
# cores, 330 MB). Needs etcd and openssl.
KUBERNETES = k8s.io/component-base/version
kubernetes:
	cd test/kubernetes && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X $(KUBERNETES).gitVersion=v1.36.3 \
		-X $(KUBERNETES).gitMajor=1 -X $(KUBERNETES).gitMinor=36 -X $(KUBERNETES).gitTreeState=clean" \
		-o ../../.kubernetes/ tool
	KUBERNETES_BIN=$(CURDIR)/.kubernetes go test -count=1 -tags kubernetes ./cmd/memestimate -run TestKubernetes -v

# Places jobs on a real Slurm cluster of four nodes with pretended GPUs, on this host, as root. Needs Debian's slurmctld,
# slurmd, slurm-client and munge; takes a quarter of a minute.
slurm:
	go test -count=1 -tags slurm ./cmd/memestimate -run TestSlurm -v
