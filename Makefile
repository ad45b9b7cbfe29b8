PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-slow test-slurm test-versions coverage explore adversary chaos check docs lock bench calibrate clean

MINUTES := 60
CELLS := 500
FAULTS := 50
SEED :=
TESTS :=
UPGRADE :=
RESOLUTION := lowest-direct

demo: .venv/runtime  ## sweep the PL-94 experiment and print the paper's table beside it
	$(BIN)/sweep run vldb-table4 --store results/vldb-table4
	@echo "docs/reproduction.md explains where the papers' numbers and ours differ"
	$(BIN)/sweep show results/vldb-table4 --format latex > results/vldb-table4/table.tex
	@echo results/vldb-table4/table.tex
	$(BIN)/sweep plot results/vldb-table4 --output results/vldb-table4/figure.png

test: check  ## lint, types (on Python 3.11) and the default tests
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: .venv/dev  ## the tests that take minutes
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m slow -n 2 --dist loadfile

test-slurm: .venv/dev  ## batch jobs of a real Slurm, ten minutes on an otherwise idle machine
	OPENBLAS_NUM_THREADS=2 $(BIN)/python -m pytest -m slurm

test-versions:  ## the default tests with the oldest libraries that pyproject.toml allows
	$(PYTHON) -m venv .venv/versions
	.venv/versions/bin/python -m pip install --quiet uv
	.venv/versions/bin/uv pip install --quiet --python .venv/versions --resolution $(RESOLUTION) -e ".[plot,dev]"
	OPENBLAS_NUM_THREADS=1 .venv/versions/bin/python -m pytest -n 2 --dist loadfile $(TESTS)

coverage: .venv/dev  ## which lines and branches the default tests do not run, in htmlcov
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --cov --cov-report=term --cov-report=html $(TESTS)

explore: .venv/dev  ## the property tests on new random examples
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m "hypothesis and not slow" --hypothesis-profile=explore --timeout 0

adversary: .venv/dev  ## hard random problems for an hour (MINUTES=), every answer checked independently
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.adversary --minutes $(MINUTES) $(SEED:%=--seed %)

chaos: .venv/dev  ## one sweep (CELLS=) through random faults (FAULTS=): nothing that ended is lost
	$(BIN)/python -m benchmarks.chaos --cells $(CELLS) --faults $(FAULTS) $(SEED:%=--seed %)

check: .venv/dev  ## lint, and types on the one Python for which they are checked
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then $(BIN)/mypy; \
		else echo "types are not checked: mypy runs on Python 3.11 only"; fi

docs: .venv/dev  ## the documentation's site, in docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

bench: .venv/dev  ## the figures of docs/benchmarks.md
	$(BIN)/python -m pytest benchmarks --benchmark-only --timeout 0

calibrate: .venv/dev  ## measure this machine's speed, from which `sweep plan` estimates times
	$(BIN)/python benchmarks/calibrate.py

LOCKED := uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-header --no-emit-index-url --no-annotate

lock:  ## renew both requirements files (needs uv); UPGRADE=--upgrade takes the newest versions
	$(LOCKED) $(UPGRADE) --all-extras -o requirements-dev.txt
	$(LOCKED) --upgrade --constraint requirements-dev.txt --extra build --extra plot -o requirements.txt

.venv/runtime: requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(PIP) --require-hashes -r requirements.txt
	$(PIP) --no-deps --no-build-isolation -e .
	touch $@

.venv/dev: requirements-dev.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(PIP) --require-hashes -r requirements-dev.txt
	$(PIP) --no-deps --no-build-isolation -e .
	touch $@

clean:
	rm -rf .venv results docs/_build docs/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks .coverage* htmlcov
