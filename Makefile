# make            lists the targets
# make sweep-ffn-ratio SIZE=nano DATA=stories SEEDS=3 ARGS="--with plain_x64"
# make sweep-ffn-ratio SEARCH=1 searches the learning rate of each arm first, and goes to the last horizon
# make sweep-ffn-ratio HORIZON=1.2M ends at that many tokens

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Where torch comes from: its CPU build where no NVIDIA GPU is seen. TORCH_INDEX= takes pip's own index.
TORCH_INDEX ?= $(if $(shell command -v nvidia-smi),,https://download.pytorch.org/whl/cpu)
SWEEPS := $(patsubst ablations/%.yaml,sweep-%,$(wildcard ablations/*.yaml))
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt

SWEEP_ARGS = $(if $(SIZE),size=$(SIZE)) $(if $(DATA),data=$(DATA)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(HORIZON),--horizon $(HORIZON)) $(if $(filter-out 0 no false,$(SEARCH)),--search) $(ARGS)

KNOWN := SIZE DATA SEEDS HORIZON SEARCH ARGS BUDGET DIR PYTHON VENV TORCH_INDEX
GIVEN := $(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(name)))
UNKNOWN := $(filter-out $(KNOWN) MAKEOVERRIDES -*-%,$(GIVEN))
$(if $(UNKNOWN),$(error $(UNKNOWN): no such variable here. Known: $(KNOWN); what is for lab itself goes into ARGS))

.PHONY: help setup test test-fast lint status noise claims site verify-exact bench gpu-check clean $(SWEEPS)

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 24
	@printf '%s\n' $(SWEEPS) | sed 's/$$/\trun this ablation and write its report/' | expand -t 24

setup: $(VENV)/installed  ## make the virtual environment with exact versions

$(BIN)/python:
	@echo "making $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0])'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing exact versions into $(VENV)"
	@test -z "$(TORCH_INDEX)" || $(PIP) --index-url $(TORCH_INDEX) --timeout 15 --retries 0 --no-deps torch 2> /dev/null || echo "nothing from $(TORCH_INDEX); taking torch from the index that pip has"
	@$(PIP) torch
	@$(PIP) --editable .
	@touch $@

$(VENV)/installed-test: $(VENV)/installed
	@echo "installing the test tools into $(VENV)"
	@$(PIP) --editable '.[test]'
	@touch $@

$(VENV)/installed-site: $(VENV)/installed
	@echo "installing the tool that builds the pages into $(VENV)"
	@$(PIP) --editable '.[site]'
	@touch $@

$(SWEEPS): sweep-%: $(VENV)/installed
	@$(BIN)/lab sweep $* $(SWEEP_ARGS)

sweep-%: $(VENV)/installed
	@$(BIN)/lab sweep $* $(SWEEP_ARGS)

status: $(VENV)/installed  ## list every run and its state
	@$(BIN)/lab status

noise: $(VENV)/installed  ## measure how much the baseline varies by its seed alone: SIZE, DATA
	@$(BIN)/lab noise $(if $(SIZE),size=$(SIZE)) $(if $(DATA),data=$(DATA)) $(ARGS)

verify-exact: $(VENV)/installed  ## compute every exact claim of the lecture
	@$(BIN)/lab verify-exact

claims: $(VENV)/installed  ## run what the ledger lacks, cheapest first: BUDGET=core-minutes
	@$(BIN)/lab claims --run --budget $(or $(BUDGET),60)

site: $(VENV)/installed-site  ## build docs/, every published report and the ledger into site/
	@$(BIN)/python -m mkdocs build --quiet --strict
	@$(BIN)/lab site site

test: $(VENV)/installed-test  ## run the tests
	@$(BIN)/python -m pytest

test-fast: $(VENV)/installed-test  ## run what takes seconds, for the loop of editing
	@$(BIN)/python -m pytest -m 'not slow'

lint: $(VENV)/installed-test  ## check style and types
	@$(BIN)/ruff check lab tests && $(BIN)/ruff format --check lab tests && $(BIN)/mypy
	@$(BIN)/python -m tests.bench.style

bench: $(VENV)/installed-test  ## time a training step beside a loop by hand and other libraries
	@$(BIN)/python -m tests.bench.peers step

# Where only torch and numpy are: make gpu-check PYTHON=python3 DIR=folder, which tests/bench/gpu_check.py --prepare wrote.
gpu-check:  ## measure a CUDA machine in 8 minutes or less
	@$(if $(filter file,$(origin PYTHON)),$(or $(wildcard $(BIN)/python),$(PYTHON)),$(PYTHON)) -m tests.bench.gpu_check $(DIR)

clean:  ## remove the virtual environment and the token caches, never results
	@rm -rf $(VENV) .cache
