# Strandline: `make` lists what can be made. Needs Python >= 3.11 with venv, and PyPI.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:

PYTHON ?= python3
WORKERS ?= 2
BIN := .venv/bin
UV_VERSION := 0.13.9
# A uv on PATH is used as it is; otherwise one of a known version lives in .uv, in this folder.
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
# The system's certificates count, so that a network with an authority of its own works.
export UV_SYSTEM_CERTS ?= $(if $(wildcard /etc/ssl/certs/ca-certificates.crt),1,0)
UV_READY := $(if $(filter .uv/bin/uv,$(UV)),.uv/.ready)
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate $(if $(UPGRADE),--upgrade)
# The developer's environment holds everything the demo needs, so it is taken if it is there.
RUN_READY := $(if $(wildcard .venv/.dev),.venv/.dev,.venv/.run)

.PHONY: help demo serve test fast e2e check fix bench lock docs wheel soak clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9_-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(RUN_READY) ## pages on committed files and 100,000 generated events (PORT chooses the port)
	@exec $(BIN)/strandline demo

serve: $(RUN_READY) ## the server on your own data (STRANDLINE_DATA, PORT)
	@exec $(BIN)/strandline serve $(if $(PORT),--port $(PORT))

test: .venv/.dev ## every test; what the machine lacks is skipped and named
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

fast: .venv/.dev ## the tests that start no process
	$(BIN)/pytest -q tests/unit tests/property tests/contract tests/ingest $(ARGS)

e2e: .venv/.dev ## the browser stories
	$(BIN)/pytest tests/e2e $(ARGS)

check: .venv/.dev ## format, lint, types, import contracts, generated documents
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/gen_docs.py --check
	$(BIN)/python scripts/gen_limits.py --check
	$(BIN)/python scripts/gen_invariants.py --check

fix: .venv/.dev ## format and repair what can be repaired
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/.dev ## rewrite the generated documents
	$(BIN)/python scripts/gen_docs.py
	$(BIN)/python scripts/gen_limits.py
	$(BIN)/python scripts/gen_invariants.py

bench: .venv/.dev ## goals of the product beside their probes and peers (see bench/README.md)
	$(BIN)/python -m bench $(ARGS)

soak: .venv/.dev ## the property and crash tests for a long time, by hand
	HYPOTHESIS_PROFILE=soak $(BIN)/pytest -n $(WORKERS) tests/property tests/crash --timeout 7200 $(ARGS)

wheel: .venv/.dev ## dist/*.whl, built through the sdist so that nothing ignored gets in
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .

lock: $(UV_READY) ## resolve the hashed lock files again (UPGRADE=1 takes newer versions)
	$(COMPILE) pyproject.toml -o requirements.lock
	$(COMPILE) pyproject.toml --group dev -c requirements.lock -o requirements-dev.lock
	$(COMPILE) --group build -c requirements-dev.lock -o requirements-build.lock

clean: ## remove the environment and everything built
	rm -rf .venv .uv dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

.uv/.ready:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; make PYTHON=python3.11 names one")'
	@$(PYTHON) -c 'import venv, ensurepip' || { echo "this Python has no venv (Debian: apt-get install python3-venv)"; exit 1; }
	$(PYTHON) -m venv .uv
	.uv/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

.venv/pyvenv.cfg: | $(UV_READY)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; make PYTHON=python3.11 names one")'
	$(UV) venv --quiet --allow-existing --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .venv

# `uv pip sync` takes the project itself out again, so it is installed after it.
define install
	$(UV) pip sync --quiet --python $(BIN)/python --require-hashes $(1)
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --build-constraints requirements-build.lock -e .
	@touch $@
endef

.venv/.run: requirements.lock requirements-build.lock pyproject.toml | .venv/pyvenv.cfg
	$(call install,requirements.lock)

.venv/.dev: requirements-dev.lock requirements-build.lock pyproject.toml | .venv/pyvenv.cfg
	$(call install,requirements-dev.lock)
