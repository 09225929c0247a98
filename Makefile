# Convoy's commands. `make` alone says what there is. Needs GNU make and Python 3.11 or newer with venv; nothing else.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
BIN := $(VENV)/bin
READY := $(VENV)/.installed
ROOTS := core brain master agent operator cli sql
CODE := $(ROOTS) examples scripts tests $(wildcard benchmarks)

.PHONY: help
help: ## this page
	@echo "Convoy. The first two need nothing but Python 3.11+ and make; they install what they need into $(VENV)."
	@echo
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' \
	  | while IFS='|' read -r name what; do printf '  make %-14s %s\n' "$$name" "$$what"; done
	@echo
	@echo "Settings: PYTHON=python3.12 (which Python), JOBS=2 (tests side by side), VENV=.venv (where to install);"
	@echo "PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS for a smaller build of torch (see README.md)."

# ---- environment

$(READY): pyproject.toml constraints.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Convoy needs Python 3.11 or newer, and $(PYTHON) is $$("$(PYTHON)" --version 2>&1): make PYTHON=python3.12 ..."; exit 2; }
	@"$(PYTHON)" -c 'import ensurepip, venv' || { \
	  echo "$(PYTHON) has no venv module: install it (Debian, Ubuntu: apt install python3-venv)"; exit 2; }
	@echo "Installing Convoy and what it needs into $(VENV), by pip, at the versions of constraints.txt."
	@test -x $(BIN)/convoy || { \
	  echo "On Linux x86-64 PyPI's torch brings CUDA: about 2.7 GB to download, 4.7 GB on disk. A build for CPUs is a tenth"; \
	  echo "of it; name where one is with PIP_EXTRA_INDEX_URL=... (PyTorch's own index) or PIP_FIND_LINKS=DIR."; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable '.[all]'
	@touch $@

.PHONY: install
install: $(READY) ## only the environment

# ---- use

.PHONY: demo
demo: $(READY) ## run the demo: a job sized by the Brain, surviving its faults (under 4 minutes)
	$(BIN)/convoy demo

.PHONY: test
test: $(READY) ## run the tests that this machine can run (about 25 minutes on two cores)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) --dist worksteal -m "not long" $(PYTEST)

.PHONY: test-long
test-long: $(READY) ## run the long tests: outages, lost nodes, kills at random moments (under 45 minutes)
	$(BIN)/pytest -m long --timeout 900 $(PYTEST)

.PHONY: servers
servers: $(READY) ## start the servers that some tests need: MariaDB, Prometheus, Kubernetes' API server
	@$(BIN)/python tests/servers start
	@echo "They run for the tests alone; \`make servers-down\` stops them."

.PHONY: servers-down
servers-down: $(READY) ## stop them
	@$(BIN)/python tests/servers stop

# ---- checks

.PHONY: check
check: $(READY) ## lint, types, layers, generated files
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy $(addsuffix /convoy,$(ROOTS)) scripts tests/support tests/servers/__main__.py
	$(BIN)/lint-imports
	$(BIN)/python scripts/protos.py --check
	$(BIN)/python scripts/proto_compatibility.py
	$(BIN)/python scripts/settings_page.py --check
	$(BIN)/python scripts/frames_page.py --check
	$(BIN)/python scripts/history_page.py --check
	$(BIN)/python -m convoy.operator.crds --check
	$(BIN)/python -m convoy.sql.render --check

.PHONY: wheel-check
wheel-check: $(READY) ## build the wheel, install it elsewhere, run the quick demo from there, import all of it
	$(BIN)/python scripts/wheel_check.py

.PHONY: format
format: $(READY) ## format the code, sort its imports
	$(BIN)/ruff check --fix-only $(CODE)
	$(BIN)/ruff format $(CODE)

# ---- generated files

.PHONY: protos crds schema docs
protos: $(READY) ## write the stubs of the .proto files anew
	$(BIN)/python scripts/protos.py
crds: $(READY) ## write deploy/crds anew, from the models
	$(BIN)/python -m convoy.operator.crds
schema: $(READY) ## write sql/schema.mysql.sql anew, from the migrations
	$(BIN)/python -m convoy.sql.render
docs: $(READY) ## write the generated pages of docs/ anew: settings, frames, format of history
	$(BIN)/python scripts/settings_page.py
	$(BIN)/python scripts/frames_page.py
	$(BIN)/python scripts/history_page.py

.PHONY: clean
clean: ## remove what was built, installed and cached here
	rm -rf $(VENV) build dist demo-run* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
