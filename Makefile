# Everything is set up in .venv by the first target that needs it; nothing outside the folder is touched but the user's cache.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
READY  := $(VENV)/.ready
WORKERS ?= 3 # more than cores: a third of the time tests wait for servers and clocks
unexport PYTHONDONTWRITEBYTECODE # else every program that a test starts, and every run, compiles all anew

.PHONY: run test test-real check cause docs site bench machines clean

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "unslow needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "no venv module: on Debian, apt install python3-venv"; exit 1; }
	@echo "setting up $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[arrow,engine,mcp]' \
		axe-playwright-python coverage hypothesis import-linter kubernetes-validate mkdocs mkdocs-material mypy playwright \
		prometheus-client pytest pytest-cov pytest-xdist PyYAML ruff
	@touch $@

run: $(READY)  ## diagnose this machine; something found (1) or not told (3) is a result too
	@$(BIN)/unslow $(ARGS); status=$$?; [ $$status -eq 1 ] || [ $$status -eq 3 ] || exit $$status

test: $(READY)  ## the default suite, on two cores (WORKERS=0: one after the other)
	$(BIN)/pytest --numprocesses $(WORKERS) --dist worksteal --cov --cov-report= -m "not real"
	$(BIN)/coverage report --fail-under=90

test-real: $(READY)  ## the slower suite: real engine, minutes
	$(BIN)/pytest -m real

check: $(READY)  ## style, types, layers, generated docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 src
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin src
	$(BIN)/lint-imports
	$(BIN)/python -m docs._build.generate --check
	$(MAKE) --no-print-directory site

cause: $(READY)  ## the two files of a new cause: make cause NAME=what_is_wrong
	@$(BIN)/python -m lab.new_cause "$(NAME)"

docs: $(READY)  ## write the generated reference
	$(BIN)/python -m docs._build.generate

site: $(READY)  ## the documentation as a site in site/, which opens from disk; NO_MKDOCS_2_WARNING silences an advert
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(READY)  ## what the program itself costs, in ratios
	$(BIN)/python benchmarks/startup.py

machines: $(READY)  ## measured against predicted on every recorded machine
	$(BIN)/python lab/machines.py

clean:
	rm -rf $(VENV) site .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
