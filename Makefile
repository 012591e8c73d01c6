# One command per verb. Every verb prepares what it needs, so `make test` works on a fresh clone.

# The interpreter that .venv is made from; empty: the first one found that is new enough.
PYTHON ?=
# Test processes: a number, or `auto` for one per core.
JOBS ?= auto

RUN := .venv/bin/python
READY := .venv/.ready
BUILT := .venv/.built
LOCK := requirements.lock
ZIG_LOCK := requirements-zig.lock
FUZZ_LOCK := requirements-fuzz.lock
CODE := $(wildcard src tests benchmarks examples scripts)
NATIVE := scripts/native.py $(shell find src -name '*.py[x]' -o -name '*.px[di]' -o -name '*.h')
NATIVE_TESTS := tests/matching
PYTEST := $(RUN) -m pytest -n $(JOBS) --maxprocesses 8 --dist loadgroup
PIP := $(RUN) -m pip -qq --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
# The verbs share .venv, so with `make -j` they still run one after another.
.NOTPARALLEL:
.PHONY: help env native demo quick test check bench soak report golden map lock native-check native-race fuzz wheel clean

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

env: $(READY)  ## make .venv: the locked packages, Tidings itself and a Java for Spark
	@echo ".venv is ready"

# The other verbs do it when a source has changed. TIDINGS_NATIVE names a flavour of scripts/native.py.
native: $(READY)  ## compile the native modules that have changed
	@$(RUN) -m scripts.native
	@touch $(BUILT)

demo: $(BUILT)  ## show what Tidings does, in a minute
	@$(RUN) examples/demo.py

# What a change usually breaks, at few examples. After the first run, which compiles the kernels, it
# takes less than a minute on two cores.
quick: $(BUILT)  ## run the tests that a change usually breaks, in a minute
	@TIDINGS_PROFILE=quick $(PYTEST) -q -m "not (spark or cluster or storm or swarm or slow)" \
	  tests/test_layout.py tests/language tests/matching tests/overlay tests/routing tests/wire tests/sim

test: $(BUILT)  ## run all tests
	@$(PYTEST) $(if $(CI),--durations=25)

check: $(READY)  ## check format, lint, types and layout
	@$(RUN) -m ruff format --check .
	@$(RUN) -m ruff check .
	@$(RUN) -m mypy $(CODE)
	@$(RUN) -m pytest -q tests/test_layout.py

bench: $(BUILT)  ## measure
	@$(RUN) -m benchmarks.language
	@$(RUN) -m benchmarks.grammar
	@$(RUN) -m benchmarks.matching
	@$(RUN) -m benchmarks.matching --growth --subscriptions 1000000
	@$(RUN) -m benchmarks.matching --updates
	@$(RUN) -m benchmarks.matching --paper
	@$(RUN) -m benchmarks.dialects
	@$(RUN) -m benchmarks.simulation
	@$(RUN) -m benchmarks.spark --subscriptions 100000 --events 100000 --rule-events 200000 --most 100000
	@$(RUN) -m benchmarks.network
	@$(RUN) -m benchmarks.layers

# The tests that take minutes, then protocols under faults. Each prints the command that replays a seed
# which fails.
soak: $(BUILT)  ## run the long tests, then protocols under faults, for hours
	@TIDINGS_SOAK=1 $(PYTEST) -m "soak or storm or swarm"
	@$(RUN) -m tidings.cli.main simulate --topology small --protocol cbcb --faults all --seeds 5000 --seed 1000
	@$(RUN) -m tidings.cli.main simulate --topology ba:30 --protocol cbcb --faults all --seeds 200 --seed 1000
	@$(RUN) -m tidings.cli.main simulate --topology small --protocol subscriptions --faults all --seeds 2000
	@$(RUN) -m tidings.cli.main simulate --topology small --protocol flood --faults all --seeds 1000
	@$(MAKE) --no-print-directory native-race RACE_SECONDS=600
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=3600
	@$(RUN) -m tidings.cli.main simulate --topology small --live --faults all --seeds 5000 --seed 1000
	@$(RUN) -m tidings.cli.main simulate --topology ring:40 --live --cross 200 --seeds 20
	@$(RUN) -m tidings.cli.main simulate --topology grid:6x6 --live --cross 200 --seeds 20

report: $(BUILT)  ## run the experiments on small parameters; build/report.html
	@$(RUN) -m tidings.cli.main lab run --quick --results build/lab/results
	@$(RUN) -m tidings.cli.main lab report --quick --results build/lab/results --out build/report.html

# pytest exits with 5 when it selects no test: then there is nothing to rewrite.
golden: $(BUILT)  ## rewrite the golden files and show what changed in them
	@TIDINGS_GOLDEN=rewrite $(RUN) -m pytest -q -m golden || [ $$? -eq 5 ]
	@git --no-pager diff --stat -- tests
	@git ls-files --others --exclude-standard -- tests

map: $(READY)  ## write the map of the code in docs/architecture.md anew
	@$(RUN) -m scripts.map

# libFuzzer from Atheris, on native modules built by zig so that it sees what they reach. It keeps
# inputs that reach something new in build/corpus, and writes one that fails beside them.
FUZZ_SECONDS ?= 60
fuzz: $(READY)  ## fuzz the readers of JSON and of saved tables
	@$(PIP) install --require-hashes -r $(ZIG_LOCK) -r $(FUZZ_LOCK)
	@TIDINGS_NATIVE=fuzz CC='$(RUN) -m ziglang cc -mcpu=baseline' $(RUN) -m scripts.native build/fuzz
	@runtime=$$($(RUN) -c 'import atheris; print(atheris.path())')/asan_with_fuzzer.so; \
	for target in json table; do \
	  mkdir -p build/corpus/$$target && \
	  LD_PRELOAD=$$runtime ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=$(CURDIR)/build/fuzz \
	    $(RUN) -m tests.matching.fuzzing $$target -max_total_time=$(FUZZ_SECONDS) \
	    -artifact_prefix=build/corpus/$$target- build/corpus/$$target || exit 1; \
	done

# Keeps the versions it can; `make lock UPGRADE=1` takes the newest ones.
lock: $(READY)  ## write requirements.lock anew from pyproject.toml
	@$(RUN) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --custom-compile-command 'make lock' \
	  $(if $(UPGRADE),--upgrade) --all-extras --group dev pyproject.toml --output-file $(LOCK)
	@$(RUN) -c 'from scripts.native import ZIG; print(ZIG)' | \
	  $(RUN) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --custom-compile-command 'make lock' - --output-file $(ZIG_LOCK)
	@echo atheris | $(RUN) -m uv pip compile --quiet --python-version 3.11 --generate-hashes \
	  --custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade) - --output-file $(FUZZ_LOCK)

# The package is copied to build/asan and its native modules are built there with assertions, checked
# indices and sanitizers (address, undefined behaviour), whose runtime must be loaded before Python.
# Python itself never frees some of its memory, so leaks are not looked for.
native-check: $(READY)  ## run the tests of native code under sanitizers
	@flavour=asan; runtime=$$($${CC:-cc} -print-file-name=libasan.so 2>/dev/null); \
	case "$$runtime" in */*) ;; *) \
	  flavour=checked; runtime=; echo "no gcc, so no sanitizers: assertions and checked indices only";; esac; \
	TIDINGS_NATIVE=$$flavour $(RUN) -m scripts.native build/$$flavour && \
	LD_PRELOAD=$$runtime ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	  PYTHONMALLOC=malloc PYTHONPATH=$(CURDIR)/build/$$flavour TIDINGS_PROFILE=quick \
	  $(RUN) -m pytest -q -n 0 -m "not (spark or slow)" $(NATIVE_TESTS)

# Where addresses are spread too widely for the sanitizer, setarch turns that off.
RACE_SECONDS ?= 20
native-race: $(READY)  ## let threads match and change a table under the thread sanitizer; needs gcc
	@TIDINGS_NATIVE=tsan $(RUN) -m scripts.native build/tsan
	@plain=$$(setarch -R true 2>/dev/null && echo setarch -R); \
	LD_PRELOAD=$$($${CC:-cc} -print-file-name=libtsan.so) PYTHONPATH=$(CURDIR)/build/tsan \
	  $$plain $(RUN) -m tests.matching.racing $(RACE_SECONDS)

wheel: $(READY)  ## make a wheel for this machine and Python, in dist
	@$(RUN) -m hatchling build -t wheel

clean:  ## remove .venv and everything tools have left
	@rm -rf .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	@find src -name '*.so' -delete
	@find $(CODE) -type d -name __pycache__ -prune -exec rm -rf {} +

# The stamp is written last and holds the folder it was made in. So an environment that was
# interrupted, whose Python has gone, or that came here with a copy of the folder is made again.
ifneq ($(shell $(RUN) -c 'print(open("$(READY)").read().strip())' 2>/dev/null),$(CURDIR))
.PHONY: $(READY)
endif

# Asks for the base interpreter, because python3 may be the one in the .venv about to be replaced.
$(READY): $(LOCK) $(ZIG_LOCK) pyproject.toml
	@rm -f $(READY)
	@set -e; \
	python=; \
	for candidate in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python); do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    python=$$("$$candidate" -c 'import sys; print(sys._base_executable)'); break; \
	  fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "make env: found no Python 3.11 or newer$(if $(PYTHON), at $(PYTHON)); install one, or name it: make env PYTHON=..." >&2; exit 1; \
	fi; \
	if ! "$$python" -c 'import venv, ensurepip' 2>/dev/null; then \
	  echo "make env: $$python has no venv module; install it (Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; \
	fi; \
	echo "making .venv with $$("$$python" --version)"; \
	"$$python" -m venv --clear .venv
	@echo "installing the packages of $(LOCK)"
	@$(PIP) install --require-hashes -r $(LOCK)
	@$(RUN) -c 'import scripts.native as n, sys; sys.exit(not n.system_compiler())' || { \
	  echo "installing a compiler, because there is none"; $(PIP) install --require-hashes -r $(ZIG_LOCK); }
	@echo "installing Tidings from src"
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@echo "looking for Java"
	@$(RUN) -m tidings.spark.java
	@pwd -P > $(READY)

$(BUILT): $(READY) $(NATIVE)
	@$(RUN) -m scripts.native
	@touch $(BUILT)
