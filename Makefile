# kprobefs: "make run" shows it, "make test" proves it, "make docs" writes what the pages show.
GO    ?= go
RACE  ?= -race
LINT  := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GUEST := kernel/guest
# What is built of the guest, and the releases on which Linux is asked (kernel/release).
IMAGES := $(notdir $(wildcard $(GUEST)/vmlinux-* $(GUEST)/btf-*))
RECORDED = $$($(GO) run ./internal/tools/golden releases)
# The tour's shell: busybox' says the errno of a failed echo, Debian's dash does not.
TOURSH ?= $(shell command -v busybox >/dev/null 2>&1 && echo busybox) sh
# What the tests of a package run for at most.
TIMEOUT  ?= 30m
# How many scripts are played at once. On two processors 3 end sooner than 8: each is several
# programs that wait for each other, and poll before they sleep.
SCRIPTS  ?= 3
# What go test -json told of a run of integration's tests: "make test-all" leaves out those that
# have passed in it, and the packages that "make test" runs whole. "make test" writes
# out/scripts.json, and CI runs the one after the other.
PASSED   ?=
# A command that runs the scripts: integration/crowd.sh gives them a host with much on it (CI does).
CROWD    ?=
# Where "make install" puts the program, and a directory that stands for / there.
PREFIX   ?= /usr/local
DESTDIR  ?=
# What it installs.
BIN      ?= bin/kprobefs
# Where "make release" and "make image" put what they build.
DIST     ?= dist
# How long "make fuzz" gives each fuzz target.
FUZZTIME ?= 30s
# Which targets "make fuzz" runs: a pattern for names as kernel/cpu.FuzzRun.
FUZZ     ?= .
# Further flags of it: -share TEXT/N runs one target in N.
FUZZFLAGS ?=

.PHONY: golden-check-all help build run docs docs-check releases mirrored-calls module-api map map-check test test-all cover soak check fmt vet lint dead tidy guest guest-check guest-only golden golden-check golden-checks tables tables-check ftracetest demand demand-page clients bench man fuzz release image deb install uninstall clean verdicts verdicts-check

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

build: ## build bin/kprobefs
	$(GO) build -o bin/kprobefs ./cmd/kprobefs

run: build ## build the program and play a tour of it, with the files in Linux's own places
	bin/kprobefs exec --cpus 2 -- $(TOURSH) $(CURDIR)/integration/tour.sh

# The pages whose commands are played.
PAGES := README.md docs/tutorial.md $(filter-out docs/guide/README.md docs/guide/go.md,$(sort $(wildcard docs/guide/*.md)))

docs: ## write what their commands print into README, the tutorial and the guides
	$(GO) run ./internal/tools/docs update $(PAGES)

docs-check: ## fail where README, the tutorial or a guide does not say what its commands print, or a page names what is not there
	$(GO) run ./internal/tools/docs check $(PAGES)
	$(GO) test ./docs
	$(GO) test -run 'TestManPages|TestCommandsPage' ./cmd/kprobefs

releases: ## write docs/reference/releases.md from the table of kernel/release
	$(GO) test ./docs -run TestReleasesPage -args -update-releases

mirrored-calls: ## write the lists of docs/reference/mirrored-calls.md from the table of internal/exec/calls
	$(GO) test ./internal/exec/calls -run TestMirroredCallsList -args -update

module-api: ## write the lists of docs/module-api.md from what the kernel exports
	$(GO) test ./docs -run TestModuleAPI -args -update-module-api

map: ## draw the packages by their imports: docs/packages.svg
	$(GO) run ./internal/tools/pkgmap write docs/packages.svg

map-check: ## fail if a package imports one of a higher layer, or the drawing is old
	$(GO) run ./internal/tools/pkgmap check docs/packages.svg

cover: ## print how much of each package its own tests and those of the packages above execute
	@rm -rf out/cover; mkdir -p out/cover
	$(GO) test -timeout 20m -cover -coverpkg=./... $$($(GO) list ./... | grep -v -e /integration -e /internal/tools) -args -test.gocoverdir=$(CURDIR)/out/cover >/dev/null || true
	@$(GO) tool covdata percent -i=out/cover | awk '{ print $$3, $$1 }' | sort -n

# The packages whose tests take longest, to begin with: none of them then runs alone at the end.
LONGEST = ./kprobes ./cmd/kprobefs . ./kernel/guest ./kernel/cpu ./fs

# The packages whose tests do one thing after the other, and the same with -short: the race detector
# would find nothing in them, and makes the one that probes each function of each guest several
# times as long.
SERIAL = ./docs ./internal/tools/docs ./integration/verdicts

# Tests of the program's arguments and of the tour's texts, which start it many times: the race detector makes each start several
# times as long, and there is nothing in them for it to find.
PLAIN = ^(TestCompletion|TestExecStatus|TestCheck|TestCheckFindsWhatIsMissing|TestEnvironment|TestFlagValues|TestMountedList|TestTour|TestTourSteps|TestTourTyped|TestTourReleases|TestWhy|TestWhyColors|TestGraph|TestSourceOfModule|TestTopSilent|TestRefusedFiles)$$

# Tests of integration/soak that do the same with -short.
ALIKE = ^(TestKnobDelays|TestStatAfterOthers|TestNoDescriptors|TestStartWithoutDescriptors|TestNoSpace|TestKilledTestsLeaveNothing|TestInstancesAreFreed|TestHalfRead|TestMemory)$$

# A line a package, then what failed, and what was skipped and why. Well kept, and nothing of it is in the program.
SUM := $(GO) run gotest.tools/gotestsum@v1.13.0 --format pkgname --format-hide-empty-pkg

test: ## each kind of test there is, in less than 8 minutes on two CPUs; says at the end what it left out
	$(SUM) -- -short -p 2 -timeout $(TIMEOUT) $(LONGEST) $$($(GO) list ./... | grep -v -e /integration$$ -e /ftracetest$$ -e /soak$$)
	@mkdir -p out
	KPROBEFS_COMMIT=$$(git rev-parse HEAD) $(CROWD) $(SUM) --jsonfile out/scripts.json -- -short -p 1 -parallel $(SCRIPTS) -timeout $(TIMEOUT) ./integration
	KPROBEFS_COMMIT=$$(git rev-parse HEAD) $(SUM) -- -short -p 1 -timeout $(TIMEOUT) ./integration/soak ./internal/tools/ftracetest
	@echo 'Left to make test-all: the race detector, each boundary of instructions and 100,000 probes, what is'
	@echo 'listed as skipped above for its time, and the scripts that another commit plays.'

test-all: ## all tests; the packages (not the scripts of integration) under the race detector
	KPROBEFS_COMMIT=$$(git rev-parse HEAD) $(GO) test $(RACE) -p 3 -timeout $(TIMEOUT) -skip '$(PLAIN)' $(LONGEST) $$($(GO) list ./... | grep -v -e /integration$$ -e /ftracetest$$ -e /soak$$ -e /docs$$ -e /verdicts$$)
	$(if $(PASSED),$(GO) test -run '^TestTourReleases$$' ./cmd/kprobefs,$(GO) test $(SERIAL) && $(GO) test -run '$(PLAIN)' ./cmd/kprobefs)
	KPROBEFS_BOUNDARY_STRIDE=1 $(GO) test -timeout $(TIMEOUT) -run '^(TestEveryBoundary|Test100000)$$' . ./kprobes
	$(GO) test -run '^TestOverheadOrder$$' ./internal/tools/bench
	KPROBEFS_COMMIT=$$(git rev-parse HEAD) $(CROWD) $(GO) test -parallel $(SCRIPTS) -timeout 40m $(if $(PASSED),-skip "$$($(GO) run ./internal/tools/passed $(PASSED))") ./integration
	$(GO) test -timeout 10m $(if $(PASSED),-skip '$(ALIKE)') ./integration/soak
	KPROBEFS_COMMIT=$$(git rev-parse HEAD) $(GO) test -timeout 20m ./internal/tools/ftracetest

soak: ## the life cycle 100 times, 64 readers and 16 writers for 10 minutes, 500,000 steps of probes and modules, 10,000 modules inserted and removed, all scripts as an ordinary user, as other releases and with the interpreter, 500 processes killed at any point, 500 supervisors and tracers, 2,000 processes at the same time, and probes armed 1,000 times beside 50 (about two hours in all)
	KPROBEFS_SOAK=1 $(GO) test -timeout 60m -v ./integration/soak
	KPROBEFS_SOAK=1 $(GO) test $(RACE) -timeout 30m -v -run 'TestStateMachine|TestEnabledProbesMissNothing' ./kprobes
	KPROBEFS_SOAK=1 $(GO) test -parallel $(SCRIPTS) -timeout 60m -run "^(TestScriptsUser|TestReleases|TestOwnHeaders)$$" ./integration
	KPROBEFS_TEST_ENGINE=interp $(GO) test -parallel $(SCRIPTS) -timeout 40m -run "^(TestScripts|TestGrammar|TestDebianModules|TestClients)$$" ./integration
	KPROBEFS_TEST_ENGINE=interp $(GO) test -timeout 40m -run "^TestSuite$$" ./internal/tools/ftracetest
	KPROBEFS_SOAK=1 $(GO) test -timeout 60m -run "^(TestMirrorKill|TestHostileProcesses|TestSupervisorKilled|TestArmedAndDisarmed)$$" ./integration

check: fmt vet tidy lint dead map-check docs-check guest-check golden-check-all tables-check verdicts-check ## what CI runs beside the tests

fmt:
	@bad=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$bad" ] || { echo "not gofmt: $$bad"; exit 1; }

vet:
	$(GO) vet ./...
	GOARCH=arm64 $(GO) vet $$($(GO) list ./... | grep -v -e /integration -e /internal/tools -e /docs$$)

tidy:
	$(GO) mod tidy -diff

lint:
	$(GO) run $(LINT) run ./...

dead: ## fail if a function is reached by no command and no test
	@out=$$($(GO) run golang.org/x/tools/cmd/deadcode@v0.52.0 -test ./...) || exit 1; if [ -n "$$out" ]; then echo "$$out"; exit 1; fi

guest: ## rebuild the guest kernels, kernel/guest/vmlinux-* and btf-* (needs Debian 12's gcc and pahole)
	$(GO) run ./internal/tools/records
	$(MAKE) -C $(GUEST)

guest-check: ## fail if the checked-in guest is not what its source builds, in two other folders
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && for at in a b/c; do \
		mkdir -p "$$dir/$$at" && cp -r $(GUEST) "$$dir/$$at/" && rm -rf "$$dir/$$at/guest/.build" "$$dir/$$at"/guest/vmlinux-* "$$dir/$$at"/guest/btf-* "$$dir/$$at"/guest/modules/*.ko "$$dir/$$at"/guest/modules/[0-9]* && \
		$(MAKE) -s -j2 -C "$$dir/$$at/guest" || exit 1; \
		for f in $(IMAGES) $$(cd $(GUEST) && ls modules/*.ko modules/[0-9]*/*.ko); do cmp "$$dir/$$at/guest/$$f" "$(GUEST)/$$f" || exit 1; done; \
	done && echo "guest-check: two builds in two folders, both are $(addprefix $(GUEST)/,$(IMAGES)) and the modules"

RELEASE ?= 6.1

verdicts: ## ask Linux (each recorded release) whether it takes probes at the functions of the guest, and record the answers in integration/verdicts
	for r in $(RECORDED); do $(GO) run ./internal/tools/golden -release $$r verdicts record || exit 1; done

guest-only: ## write docs/reference/guest-only.md from these answers
	$(GO) test ./integration/verdicts -run TestGuestOnlyPage -args -update-guest-only

# One name in sixteen, others for each commit. The tests hold the guest against all.
verdicts-check: ## fail if one of these answers is not what Linux says
	for r in $(RECORDED); do $(GO) run ./internal/tools/golden -release $$r -share $$(git rev-parse HEAD)/16 verdicts check || exit 1; done

golden: ## record what Linux (RELEASE=6.1) prints for the scripts of integration/testdata
	$(GO) run ./internal/tools/golden -release $(RELEASE) record

golden-check: ## fail if a recording is not what Linux (RELEASE=6.1) prints
	$(GO) run ./internal/tools/golden -release $(RELEASE) check

golden-checks: ## the same for each recorded release and for Debian's modules, two at a time
	$(MAKE) -j2 $$(for r in $(RECORDED); do echo golden-check-$$r; done) golden-check-modules

# For make check: of the other releases than 6.1 the recordings that are not the same as 6.1's, and of all
# one in sixteen, others for each commit.
golden-check-all: GOLDENFLAGS = -share $$(git rev-parse HEAD)/16
golden-check-all:
	$(MAKE) -j2 GOLDENFLAGS="$(GOLDENFLAGS)" golden-check-$(RELEASE) $$(for r in $(RECORDED); do [ $$r = $(RELEASE) ] || echo golden-check-differing-$$r; done) golden-check-modules

golden-check-differing-%:
	$(GO) run ./internal/tools/golden -release $* -differing $(GOLDENFLAGS) check

golden-check-modules:
	$(GO) run ./internal/tools/golden -modules $(GOLDENFLAGS) check

golden-check-%:
	$(GO) run ./internal/tools/golden -release $* $(GOLDENFLAGS) check

tables: ## record what Linux answers to the random definitions, values, filters and words of integration/grammar
	$(GO) run ./internal/tools/golden tables record

# One table in two, others for each commit.
tables-check: ## fail if one of these tables is not what Linux answers
	$(GO) run ./internal/tools/golden -share $$(git rev-parse HEAD)/2 tables check

ftracetest: ## run all of the kernel's own tests of tracing (linux-source-RELEASE, 6.1 or 6.12) here, and compare with what they gave on Linux
	$(GO) run ./internal/tools/ftracetest -release $(RELEASE) run $(FTRACEDIRS)

demand: ## count again what published tools and lessons name (downloads them), and write the table and docs/reference/demand.md
	$(GO) run ./internal/tools/demand write

demand-page: ## write what the guest has of it now
	$(GO) run ./internal/tools/demand page

clients: ## play commands of trace-cmd, perf, perf-tools, libtracefs, bpftrace and cilium/ebpf here, and compare with what they printed on Linux
	$(GO) run ./internal/tools/clients run

bench: ## measure the interpreter, hits, their recording, files and 10,000 probes; tables, and out/bench.json
	@mkdir -p out
	$(GO) run ./internal/tools/bench -json out/bench.json

man: ## write the manual pages and docs/reference/commands.md from the commands' help (tests compare them)
	$(GO) test ./cmd/kprobefs -run 'TestManPages|TestCommandsPage' -args -update-man

fuzz: ## run each fuzz target for FUZZTIME, four at a time: its executions and what they found; a failing input is printed and kept
	$(GO) run ./internal/tools/fuzz -jobs 4 -time $(FUZZTIME) -run '$(FUZZ)' $(FUZZFLAGS)

release: ## a static binary and its checksum, in dist
	@mkdir -p "$(DIST)"
	CGO_ENABLED=0 GOOS=linux GOARCH=amd64 $(GO) build -trimpath -ldflags='-s -w' -o "$(DIST)/kprobefs-linux-amd64" ./cmd/kprobefs
	cd "$(DIST)" && sha256sum kprobefs-linux-amd64 >SHA256SUMS

image: release ## a container image of that binary, without an engine, in dist: image (an OCI layout), kprobefs-image.tar (docker load) and kprobefs.cdx.json (what is in it)
	$(GO) run ./internal/tools/container -binary "$(DIST)/kprobefs-linux-amd64" -file contrib/Containerfile -dir "$(DIST)"

bin/kprobefs:
	$(GO) build -o bin/kprobefs ./cmd/kprobefs

# Well kept; 2.46 and later need modules that Go's proxy does not have.
NFPM := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.1
# The package's version and time are the last commit's, so that two builds are equal: 0.1.0 of the tag v0.1.0,
# 0.1.0+5.gHASH of the fifth commit after it.
deb: export VERSION ?= $(shell git describe --tags --match 'v[0-9]*' 2>/dev/null | sed 's/^v//; s/-\([0-9]*\)-g/+\1.g/' | grep . || git log -1 --format=0~%cd.%h --date=format:%Y%m%d)
deb: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
deb: export TREE = $(DIST)/deb
deb: release ## a Debian package of that binary, with manual pages, completions and the unit for systemd, in dist
	rm -rf "$(TREE)" && $(MAKE) -s install BIN="$(DIST)/kprobefs-linux-amd64" DESTDIR="$(TREE)" PREFIX=
	gzip -9n "$(TREE)"/share/man/man1/*.1
	sed 's|/usr/local/bin/|/usr/bin/|' "contrib/systemd/kprobefs@.service" >"$(TREE)/kprobefs@.service"
	find "$(TREE)" -exec touch -h -d "@$(SOURCE_DATE_EPOCH)" {} +
	$(GO) run $(NFPM) package -f contrib/nfpm.yaml -p deb -t "$(DIST)/kprobefs_amd64.deb"
	rm -rf "$(TREE)"

# The files below PREFIX.
AT = $(DESTDIR)$(PREFIX)
BASH_AT = $(AT)/share/bash-completion/completions
ZSH_AT  = $(AT)/share/zsh/site-functions
FISH_AT = $(AT)/share/fish/vendor_completions.d
MAN_AT  = $(AT)/share/man/man1

install: $(BIN) ## install bin/kprobefs (built if it is not there), manual pages and completions below PREFIX (/usr/local), in DESTDIR if that is set
	install -D -m 0755 "$(BIN)" "$(AT)/bin/kprobefs"
	install -d "$(MAN_AT)" "$(BASH_AT)" "$(ZSH_AT)" "$(FISH_AT)"
	install -m 0644 docs/man/*.1 "$(MAN_AT)"
	umask 022 && "$(BIN)" completion bash >"$(BASH_AT)/kprobefs"
	umask 022 && "$(BIN)" completion zsh >"$(ZSH_AT)/_kprobefs"
	umask 022 && "$(BIN)" completion fish >"$(FISH_AT)/kprobefs.fish"

uninstall: ## remove what make install has installed
	rm -f "$(AT)/bin/kprobefs" "$(BASH_AT)/kprobefs" "$(ZSH_AT)/_kprobefs" "$(FISH_AT)/kprobefs.fish"
	cd docs/man && for page in *.1; do rm -f "$(MAN_AT)/$$page"; done

clean: ## remove what was built (not the guest's image, which is checked in)
	rm -rf bin dist out $(GUEST)/.build
