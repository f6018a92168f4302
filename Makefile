# Every target works on a fresh machine: it makes .venv from the lock file first.
PY := .venv/bin/python
LOCK := requirements/cpu.lock
STAMP := .venv/.installed

.PHONY: check format
setup: $(STAMP)

check: $(STAMP)
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy

format: $(STAMP)
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .
