# The C compiler is needed only by go-nvml, which declares functions that NVIDIA deprecates.
export CGO_CFLAGS ?= -g -O2 -Wno-deprecated-declarations

.PHONY: accuracy bench bench-snapshot build golden lint release test

build:
	go build -trimpath -o memestimate ./cmd/memestimate

test:
	go test ./...

bench:
	go test -run '^$$' -bench . -benchmem ./...

# Reading a 30 MB memory snapshot, beside python3 doing the same; drawing 100,000 events.
bench-snapshot:
	go test ./snapshot -run '^$$' -bench .
	go test ./report/page -run TestManyEvents -v

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.7.0 ./...

# Compares the estimate with every measured run and writes docs/ACCURACY.md.
accuracy:
	go test ./estimate -run 'TestAccuracy|TestVariants' -count=1 -v -accuracy.write

# Writes what tests expect to be printed anew: after a change of the figures. Look at what it changes.
golden:
	go test ./cmd/memestimate -run 'DiffRows|Readme|OperatorsPage|Docs' -count=1 -update -update-readme

# Archives with checksums into dist: make release VERSION=v1.2.3
release:
	scripts/release.sh $(VERSION)
