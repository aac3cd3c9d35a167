# Every target sets itself up on a machine that has only Python 3.11+, pip and make.
# One environment, .venv; a stamp per lock file says what is installed in it.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check --quiet
WORKERS ?= 2

PYTEST := $(VENV)/bin/python -m pytest -n $(WORKERS) --dist loadgroup

.PHONY: demo check test test-slow test-all test-lowest mutants bench lint types types-all format reference lock clean

demo: $(VENV)/core.stamp
	$(VENV)/bin/sfumato demo

# For every commit: format, lint, types, imports between floors, and the unit tests that take no seconds.
check: $(VENV)/test.stamp lint types
	$(PYTEST) -m "not slow and not long" tests/meta/test_floors.py tests/unit

test: $(VENV)/test.stamp lint types
	$(VENV)/bin/python tests/system_needs.py
	$(PYTEST) --durations=30

test-slow: $(VENV)/test.stamp
	$(VENV)/bin/python tests/system_needs.py
	$(VENV)/bin/python -m pytest -m slow --timeout 3600 --durations=30

test-all: test types-all test-slow

# The oldest versions that pyproject.toml allows, in an environment of their own: unit tests, once.
# Old versions meet newer ones of what they need in turn, so deprecations are shown and not errors.
LOWEST := $(VENV)-lowest
EXTRAS := $(foreach extra,postgres accounting audit excel statistics learn serve graph hexagons strict survey test,--extra $(extra))
test-lowest: $(VENV)/core.stamp
	$(PIP) install uv
	$(VENV)/bin/uv pip compile --quiet --resolution lowest-direct --python-version 3.11 pyproject.toml requirements/build.in $(EXTRAS) -o $(VENV)/lowest.txt
	$(VENV)/bin/uv venv --quiet --clear --python $(VENV)/bin/python $(LOWEST)
	$(VENV)/bin/uv pip sync --quiet --python $(LOWEST)/bin/python $(VENV)/lowest.txt
	$(VENV)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --no-build-isolation --no-deps -e .
	$(LOWEST)/bin/python -m pytest -n $(WORKERS) -W default tests/unit

# Which small changes of the code the tests notice: an hour or two, resumed where it stopped.
mutants: $(VENV)/test.stamp
	test -f .mutants/seconds.json || $(VENV)/bin/python tests/mutants.py map
	$(VENV)/bin/python tests/mutants.py run
	$(VENV)/bin/python tests/mutants.py table

bench: $(VENV)/bench.stamp
	$(VENV)/bin/python -m bench

lint: $(VENV)/test.stamp
	$(VENV)/bin/ruff format --check src tests bench docs
	$(VENV)/bin/ruff check src tests bench docs

types: $(VENV)/test.stamp
	$(VENV)/bin/mypy

# Only the Python of the environment runs the tests; for the others types are checked.
types-all: $(VENV)/test.stamp
	for version in 3.11 3.12 3.13; do $(VENV)/bin/mypy --python-version $$version --cache-dir .mypy_cache/$$version || exit; done

format: $(VENV)/test.stamp
	$(VENV)/bin/ruff format src tests bench docs
	$(VENV)/bin/ruff check --fix src tests bench docs

# What documentation can be read off the source.
reference: $(VENV)/core.stamp
	$(VENV)/bin/python docs/reference/errors.py
	$(VENV)/bin/python docs/reference/doors.py
	$(VENV)/bin/python docs/reference/tolerances.py
	$(VENV)/bin/python docs/guide/floors.py

# The lock files name versions and hashes, no host; plain pip installs them.
LOCK := $(VENV)/bin/uv pip compile --universal --generate-hashes --no-header --no-annotate --quiet --python-version 3.11
lock:
	$(LOCK) pyproject.toml requirements/build.in --extra postgres --extra spark --extra spark-connect --extra accounting --extra audit --extra excel --extra statistics --extra learn --extra serve --extra graph --extra hexagons --extra strict --extra survey --extra test -o requirements/test.txt
	$(LOCK) pyproject.toml requirements/build.in -c requirements/test.txt -o requirements/core.txt
	$(LOCK) pyproject.toml requirements/build.in --extra serve --extra postgres --extra strict --extra survey -c requirements/test.txt -o requirements/serve.txt
	$(LOCK) pyproject.toml --extra bench -c requirements/test.txt -o requirements/bench.txt
	for peer in requirements/peers/*.in; do $(LOCK) $$peer -o $${peer%.in}.txt; done

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info[:2] < (3, 14) else "Sfumato needs Python 3.11, 3.12 or 3.13; this is " + sys.version.split()[0] + ". Name another with: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/core.stamp: requirements/core.txt pyproject.toml | $(VENV)/bin/python
	$(PIP) install --require-hashes --no-deps -r requirements/core.txt
	$(PIP) install --no-build-isolation --no-deps -e .
	touch $@

$(VENV)/test.stamp: requirements/test.txt $(VENV)/core.stamp
	$(PIP) install --require-hashes --no-deps -r requirements/test.txt
	touch $@

$(VENV)/bench.stamp: requirements/bench.txt $(VENV)/test.stamp
	$(PIP) install --require-hashes --no-deps -r requirements/bench.txt
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) .mypy_cache .ruff_cache .pytest_cache
