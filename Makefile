# The commands that the README and CI call. Everything is installed into .venv.

PYTHON ?= python3
BIN := .venv/bin
# Some machines set it. Then each of the many processes that tests start compiles all its modules.
unexport PYTHONDONTWRITEBYTECODE

# With an NVIDIA GPU, what nvcc's version asks for; without one, the CPU alone.
# `make reproduce EXTRAS=cpu` uses the CPU even where there is a GPU.
GPU := $(shell nvidia-smi -L 2>/dev/null | grep -c '^GPU')
CUDA := $(shell nvcc --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
ifeq ($(GPU),0)
EXTRAS ?= cpu
else
EXTRAS ?= cpu,cuda$(CUDA)
endif
QUICK := $(if $(findstring cuda,$(EXTRAS)),,--quick)

# What `make guard` compares, and how; the threshold is that of `gpubench compare` where none is given.
BASE ?= origin/main
HEAD ?= HEAD
THRESHOLD ?=
CANNOT_TELL ?= warn

# How long `make attack` takes and its seed (by chance where none is given). ONLY is one trial of
# it, or a word in the names of what `make kernels` compiles.
MINUTES ?= 10
SEED ?=
ONLY ?=

USER_STAMP := .venv/installed-$(EXTRAS),report,simulation
DEV_STAMP := .venv/installed-$(EXTRAS),dev
ASV_STAMP := .venv/installed-$(EXTRAS),report,simulation,asv
DOCS_STAMP := .venv/installed-$(EXTRAS),report,simulation,docs

# What asv runs: with QUICK=1 a few benchmarks at their smallest, else all that BENCH matches.
ifeq ($(QUICK),1)
BENCH := algorithms\.(AtomicList|CountingSort|FilterScanSearch)\.track_time.*, (16384|1048576), (16|0\.1)\)
endif
ASV_RUN = --machine "$$($(BIN)/python tools/asv_machine.py)" $(if $(BENCH),--bench '$(BENCH)')

.PHONY: help install reproduce test test-ci test-all test-long test-gpu attack lint docs docs-benchmarks pictures lock kernels \
  guard benchmark benchmark-history benchmark-regressions clean

help:
	@echo 'make reproduce   measure Table 1 on this machine and write the report'
	@echo 'make install     install into .venv what the other targets need; they do it themselves'
	@echo 'make test        run the tests that need no GPU, in some minutes'
	@echo 'make test-ci     run long ones as well, as CI does'
	@echo 'make test-all    run all that need no GPU'
	@echo 'make test-gpu    run the tests that need an NVIDIA GPU'
	@echo 'make attack      try to break what the documents promise: make attack MINUTES=10 SEED=1'
	@echo 'make lint        check style and types'
	@echo 'make kernels     compile every CUDA kernel, or some: make kernels ONLY=scan; needs nvcc, no GPU'
	@echo 'make docs        build the documentation site into build/site'
	@echo 'make pictures    redraw the map of the README from the results that ship, and the steps of a search'
	@echo 'make lock        pin the development environment in requirements-dev.lock'
	@echo 'make guard       is HEAD slower than BASE? make guard BASE=origin/main THRESHOLD=5%'
	@echo 'make benchmark   run asv on the commit that is checked out, and publish reports/asv'
	@echo 'make benchmark-history COMMITS="a b"   likewise on other commits, installing nothing'
	@echo 'make benchmark-regressions   print the regressions in reports/asv'
	@echo 'make clean       remove .venv, .asv and caches; results and reports stay'

reproduce: $(USER_STAMP)
	$(BIN)/gpubench run rozen2008-table1 $(QUICK)
	@page=$$($(BIN)/gpubench report) && echo "The report: $(CURDIR)/$$page"

# Half of the files for each process, so that few fixtures are made and kernels compiled twice.
test: $(DEV_STAMP)
	$(BIN)/pytest -n 2 --dist worksteal -m 'not cuda and not long'

# Also Oclgrind, PoCL, the commands of the README, histories of commits, the rest of the pages. In
# one go, so that tests are collected, results read and kernels compiled once.
test-ci: $(DEV_STAMP)
	$(BIN)/pytest -n 2 --dist worksteal -m 'not cuda and not thorough'

# With the vectors that users get on a CPU: tests/conftest.py says why the others do without.
test-all: $(DEV_STAMP)
	PYOPENCL_BUILD_OPTIONS= $(BIN)/pytest -n 2 --dist worksteal -m 'not cuda'

test-long: $(DEV_STAMP)
	$(BIN)/pytest -n 2 --dist worksteal -m 'long and not cuda'

# Everything that the other targets need, so that two of them may run at once.
install: $(DEV_STAMP) $(DOCS_STAMP)

# Without a usable GPU these fail, where they would be skipped.
test-gpu: $(DEV_STAMP)
	GPUBENCH_REQUIRE_CUDA=1 $(BIN)/pytest -m cuda

# Two processes at a time; fails where a promise is broken, and says how to repeat that attempt.
attack: $(DEV_STAMP)
	$(BIN)/python tools/attack --minutes '$(MINUTES)' $(if $(SEED),--seed '$(SEED)') \
	  $(if $(ONLY),--only '$(ONLY)')

lint: $(DEV_STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: $(DOCS_STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo 'The site: $(CURDIR)/build/site/index.html'

# Behind `make docs`, which empties build/site.
docs-benchmarks: $(DEV_STAMP)
	$(BIN)/asv publish --html-dir build/site/asv

pictures: $(USER_STAMP)
	$(BIN)/gpubench report results/measured/nvidia-h100-80gb-hbm3 --out build/pictures
	cp build/pictures/figures/nvidia-h100-80gb-hbm3-cuda-answer-map-count.svg docs/pictures/fastest-count.svg
	$(BIN)/python tools/draw_search.py docs/pictures/fastest-search.svg

# For every Python that the package supports; uv resolves for all of them at once.
lock: $(DEV_STAMP)
	$(BIN)/uv pip compile pyproject.toml --extra cpu --extra dev --universal --quiet \
	  --python-version 3.11 --custom-compile-command 'make lock' --no-emit-index-url \
	  --no-emit-find-links --output-file requirements-dev.lock

kernels: $(DEV_STAMP)
	$(BIN)/python tools/compile_kernels.py $(if $(ONLY),--only '$(ONLY)')

# Exit 1 slower, 2 error; 3, inconclusive, fails with CANNOT_TELL=fail only.
guard: $(USER_STAMP)
	CANNOT_TELL='$(CANNOT_TELL)' .ci/guard $(BIN)/gpubench compare '$(BASE)' '$(HEAD)' \
	  $(if $(THRESHOLD),--threshold '$(THRESHOLD)')

# What fails to be measured fails the target, when the rest has been published.
benchmark: $(ASV_STAMP)
	@git diff --quiet HEAD -- gpubench kernels || { \
	  echo 'gpubench or kernels differ from the commit that the results would be of: commit first' \
	  >&2; exit 1; }
	@status=0; $(BIN)/asv run --python=same --set-commit-hash "$$(git rev-parse HEAD)" \
	  --record-samples $(ASV_RUN) || status=$$?; \
	  $(BIN)/asv publish && echo 'The site: $(CURDIR)/reports/asv/index.html' && exit $$status

benchmark-history: $(ASV_STAMP)
	$(BIN)/python tools/asv_history.py pack .asv/commits $(COMMITS)
	@status=0; $(BIN)/python tools/asv_history.py run .asv/commits -- $(ASV_RUN) || status=$$?; \
	  $(BIN)/asv publish && echo 'The site: $(CURDIR)/reports/asv/index.html' && exit $$status

benchmark-regressions: $(ASV_STAMP)
	@$(BIN)/python tools/asv_regressions.py reports/asv

clean:
	rm -rf .asv .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What is more than a user has comes with all of that, which needs no installing again. uv installs
# in a third of pip's time. Modules are compiled when they are imported: most never are.
.venv/installed-%: pyproject.toml | $(BIN)/python
	@case '$*' in *cuda12* | *cuda13*) ;; *cuda*) \
	  echo 'nvidia-smi finds a GPU, but there is no nvcc of CUDA 12 or 13: install the CUDA toolkit' \
	       'and put its bin folder on PATH, or use the CPU alone: make reproduce EXTRAS=cpu' >&2; \
	  exit 1 ;; esac
	@echo "Installing gpubench[$*] into .venv"
	@VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --editable '.[$*]' || { \
	  echo 'uv could not: trying pip, which may know other package indices' >&2; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
	  --editable '.[$*]'; }
	@touch '$@' $(if $(filter $(EXTRAS)%,$*),'$(USER_STAMP)')

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { \
	  echo '$(PYTHON) is missing: install Python 3.11 to 3.13, or name one: make PYTHON=python3.12' \
	  >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || { \
	  echo "gpubench needs Python 3.11 to 3.13, and $(PYTHON) is $$($(PYTHON) --version):" \
	       'name another: make PYTHON=python3.12' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo '$(PYTHON) cannot make virtual environments: on Debian and Ubuntu,' \
	       'apt-get install python3-venv' >&2; exit 1; }
	$(PYTHON) -m venv .venv
	-@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile uv
