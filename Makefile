# `make` alone prints what there is. ARGS reaches the program behind a target: make test ARGS="-k spool".

BIN := .venv/bin
ARGS ?=
# Tests wait more than they work: three workers keep two cores busy.
PYTEST := $(BIN)/pytest -n 3 --durations=15

.DEFAULT_GOAL := help
.PHONY: help up down test-fast test test-long matrix matrix-roots simulate faults check fix bench train docs lock setup

help: ## print this
	@echo 'FarmIQ: a farm on this machine, from the sensor to the cloud database.'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo 'After `make up`: $(BIN)/farmiq --help'

up: ## set up what is missing, start the farm, print where everything is
	@tools/bootstrap.sh up
	@$(BIN)/farmiq up $(ARGS)

down: ## stop the farm and keep its data (ARGS=--purge deletes the data too)
	@if [ -x $(BIN)/farmiq ]; then $(BIN)/farmiq down $(ARGS); else echo 'Nothing was started from this checkout.'; fi

test-fast: setup ## the tests that need no server, in two minutes
	@$(PYTEST) -m "not long" tests/unit tests/simulation tests/test_tidy.py $(ARGS)

test: setup ## every test that decides about a change, on servers of their own
	@$(PYTEST) -m "not long" $(ARGS)

test-long: setup ## the long forms: campaigns and sizes that prove the same again (CONTRIBUTING.md has the list)
	@$(PYTEST) -m long $(ARGS)

matrix: ## README, start.md and the fast tests on Debian 12, 13 and unstable, each in a root filesystem (as root; needs mmdebstrap)
	@tools/matrix.py run $(ARGS)

matrix-roots: ## make the root filesystems of the matrix; some long tests take their servers from there
	@tools/matrix.py roots $(ARGS)

simulate: setup ## the delivery of samples in virtual time, many seeds (ARGS="--seeds 5000 --resume", --seed N: one again, --mutate: faults in our code)
	@PYTHONPATH=tests PYTHONHASHSEED=0 $(BIN)/python -m simulation $(ARGS)

check: setup ## everything that must hold before a change is taken, except the tests
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@if command -v shellcheck >/dev/null; then shellcheck tools/*.sh .ci/run; else echo 'shellcheck is not installed here: shell scripts were not checked'; fi

fix: setup ## let ruff repair and format what it can
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

bench: ## measure ourselves beside our peers, make docs/benchmarks.md (ARGS=--quick: under 40 s a benchmark)
	@tools/bootstrap.sh bench
	@$(BIN)/python benchmarks/run_all.py $(ARGS)

faults: setup ## torture a farm of its own with faults, and judge it by an outside ledger (ARGS="--minutes 60 --faults 1500")
	@$(BIN)/farmiq torture $(ARGS)

train: ## train the weight model anew, on rendered pictures (docs/guides/train-a-model.md)
	@tools/bootstrap.sh train
	@.venv-training/bin/python training/train.py $(ARGS)

docs: setup ## build docs/ into .site, a site that needs no other host; warnings are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

LOCK := pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
  --no-emit-package farmiq pyproject.toml

lock: ## pin the dependencies anew, with hashes (needs uv)
	@command -v uv >/dev/null || { echo 'uv is not installed. Install it with: pipx install uv' >&2; exit 1; }
	@uv $(LOCK) --extra dev -o requirements-dev.lock
	@uv $(LOCK) --extra stack -o requirements.lock -c requirements-dev.lock

setup:
	@tools/bootstrap.sh test
