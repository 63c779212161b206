# Stoker: what a newcomer types. `make help` lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
PY := $(VENV)/bin/python
CLUSTER ?= demo
NODES ?= 2

.PHONY: help
help: ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# The stamps name what was installed, so that `make` installs again only what changed.
$(VENV)/.locked: requirements/build.txt requirements/dev.txt tools/install.sh
	@tools/install.sh $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.locked pyproject.toml
	@$(PY) -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: install
install: $(VENV)/.installed ## Python packages and Debian's libfuse, into .venv

# Real programs that the integration tests read mounts with; the demo needs none of them.
$(VENV)/.clients: $(VENV)/.locked requirements/clients.txt requirements/trainer.txt tools/install-clients.sh
	@tools/install-clients.sh $(VENV)
	@touch $@

.PHONY: demo
demo: install ## The whole story on a real cluster; CLUSTER=existing uses the current kubeconfig
	@$(PY) -m examples.demo up --cluster $(CLUSTER) --nodes $(NODES)

.PHONY: demo-shell
demo-shell: install ## A shell with kubectl, helm and KUBECONFIG of the demo's cluster
	@$(PY) -m examples.demo shell --cluster $(CLUSTER)

.PHONY: demo-down
demo-down: install ## Remove every trace of the demo
	@$(PY) -m examples.demo down --cluster $(CLUSTER)

.PHONY: test
test: install $(VENV)/.clients ## Everything: lint, types, import rules, unit, contract, model, integration, e2e
	@$(PY) -m tests.run

.PHONY: check
check: install ## Before each commit, in about four minutes: lint, types, import rules, unit
	@$(PY) -m tests.run lint unit

.PHONY: lint
lint: install ## Lint, format, types, import rules
	@$(PY) -m tests.run lint

.PHONY: unit
unit: install ## Tests that need neither root nor a server
	@$(PY) -m tests.run unit

.PHONY: coverage
coverage: install ## The lines that the unit tests reach
	@$(PY) -m pytest -q tests/unit -n 2 --cov

.PHONY: e2e
e2e: install $(VENV)/.clients ## The user stories on a real cluster
	@$(PY) -m tests.run e2e

.PHONY: bench
bench: install ## Benchmarks: prints tables and targets, writes JSON to bench/results (an hour or so, as root)
	@$(PY) -m bench run

.PHONY: bench-page
bench-page: install ## Benchmarks at full size, 5 times each: writes docs/performance (hours, on an idle machine)
	@$(PY) -m bench run --full --write

.PHONY: lock
lock: install ## Write requirements/*.txt from pyproject.toml (tools/lock.sh --upgrade takes newer versions)
	@tools/lock.sh

.PHONY: release
release: install ## Image, chart, wheels, plug-in, SBOM and checksums, into dist/VERSION (KEY=private SSH key, URL=of the files)
	@$(PY) -m tools.release build $(if $(KEY),--key $(KEY)) $(if $(URL),--url $(URL))

.PHONY: client-wheel
client-wheel: install ## Build stoker-client, the wheel for training images, into dist
	@$(PY) -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w dist ./client

.PHONY: crds
crds: install ## Generate the CRDs from the models
	@$(PY) -m stoker_api.schema crds charts/stoker/crds

.PHONY: rooms
rooms: install ## Write docs/design/rooms.md from .importlinter
	@$(PY) tools/rooms.py

.PHONY: docs
docs: install ## Write the site of docs/, with search, to site/ (with npm, also its diagrams)
	@$(PY) tools/docs_diagrams.py
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet && echo "python3 -m http.server -d site shows it"

.PHONY: rules
rules: install ## Write docs/reference/rules.md from the models of tuning documents
	@$(PY) -m stoker_tuning.documents.reference docs/reference/rules.md

.PHONY: cluster-build
cluster-build: install ## Build the parts of the test cluster (once; cached)
	@$(PY) -m e2e.cluster build

.PHONY: clean
clean: ## Remove what the Makefile made (not the cluster's cache)
	rm -rf $(VENV) site .mypy_cache .ruff_cache .hypothesis bench/results
