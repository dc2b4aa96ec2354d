# Weir. `make` checks everything that needs no services; see CONTRIBUTING.md.

GO      ?= go
BIN     := $(shell $(GO) env GOPATH)/bin
TEMPORAL_VERSION := v1.5.1
VERSITY_VERSION  := v1.8.0
LINT_VERSION     := v2.15.0
CHECK_VERSION    := v0.6.0

export PATH := $(BIN):$(PATH)

.PHONY: all build demo dev test unit race e2e crash chaos sim lint arch check tools tool-temporal tool-versitygw tool-lint clean

all: build lint arch unit

build:
	$(GO) build -o bin/weir ./cmd/weir

## The main job on embedded defaults: three workers, SIGKILLs, and the proof that nothing was lost or doubled.
demo: build tool-temporal
	bin/weir demo

dev: build tool-temporal
	bin/weir dev

## Every test: pure, in process, with real services, and over processes that are killed. The clusters come one
## after the other, so that they do not starve each other.
CLUSTERS := ./tests/e2e/... ./tests/chaos/... ./tests/crash/...
REAL     := WEIR_REQUIRE_REAL=1 WEIR_BINARY=$(CURDIR)/bin/weir

test: build tools
	$(REAL) $(GO) test -timeout 14m $$($(GO) list ./... | grep -vE '/tests/(e2e|chaos|crash)')
	$(REAL) $(GO) test -p 1 -timeout 14m $(CLUSTERS)

unit:
	$(GO) test -short ./...

race:
	$(GO) test -race -short ./...

e2e: build tools
	$(REAL) $(GO) test -p 1 -count=1 -timeout 30m -v $(CLUSTERS)

## Every crash point with every target: half an hour and more.
crash: tool-temporal
	WEIR_REQUIRE_REAL=1 WEIR_CRASH_ALL=1 $(GO) test -count=1 -timeout 3h -v -run TestCrashPoints ./tests/crash

## Ten random plans of kills over 300,000 records each, a frozen worker at every place, Temporal away for minutes.
chaos: build tools
	$(REAL) $(GO) test -count=1 -timeout 2h -v ./tests/chaos -seeds 10 -records 300000 -long

sim:
	$(GO) test -count=1 ./tests/sim/... -seeds 200

lint: tool-lint
	golangci-lint run ./...

arch:
	$(GO) test ./tests/arch/...

## Determinism of the workflows.
check:
	$(GO) run go.temporal.io/sdk/contrib/tools/workflowcheck@$(CHECK_VERSION) ./workflows/...

## Services that the tests use, built once into $(BIN).
tools: tool-temporal tool-versitygw

tool-temporal:
	@command -v temporal >/dev/null || { echo "building the temporal CLI $(TEMPORAL_VERSION), once: some minutes"; $(GO) install github.com/temporalio/cli/cmd/temporal@$(TEMPORAL_VERSION); }

tool-versitygw:
	@command -v versitygw >/dev/null || { echo "building versitygw $(VERSITY_VERSION), once: some minutes"; $(GO) install github.com/versity/versitygw/cmd/versitygw@$(VERSITY_VERSION); }

tool-lint:
	@command -v golangci-lint >/dev/null || { echo "building golangci-lint $(LINT_VERSION), once: some minutes"; $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION); }

clean:
	rm -rf bin
