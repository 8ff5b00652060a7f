# Two commands do everything on a machine with Python 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
FRESH := $(VENV)/.fresh
LOWEST := build/lowest
# What depends most on processors, libraries and their versions; under two minutes on two cores.
FAST := tests/test_rounding.py tests/test_warnings.py tests/allocation/test_weights.py \
	tests/data/test_interactions.py tests/data/test_tasks.py tests/engine/test_cpu.py tests/engine/test_kernels.py \
	tests/engine/test_spectral.py tests/privacy/test_bounds.py tests/privacy/test_gaussian.py \
	tests/privacy/test_ledger.py tests/privacy/test_release.py tests/recommend/test_intercepts.py \
	tests/recommend/test_item_step.py tests/recommend/test_recommender.py tests/recommend/test_scores.py \
	tests/soundness/test_row_12_grid.py tests/soundness/test_worst_users.py tests/tasks/test_losses.py \
	tests/tasks/test_shared.py

.PHONY: demo test fast lowest test-all test-slow audit lint types format pictures lock clean

demo: $(FRESH)
	$(BIN)/apportion demo

test: $(FRESH) lint types
	$(BIN)/pytest -n 2 -q

fast: $(FRESH)
	$(BIN)/pytest -n 2 -q $(FAST) $(ALSO)

# With the lowest versions that pyproject.toml allows, and the newest tools for tests that go with them.
lowest: $(LOWEST)/.ready
	$(LOWEST)/bin/pytest -n 2 -q $(FAST) $(ALSO)

# The fast tests on other machines, as far as this one can play them.
test-all:
	.ci/machines

test-slow: $(FRESH)
	$(BIN)/pytest -n 2 -q -m slow

# What tries to prove the guarantee wrong, in its long forms: attacks, kills, forged files. Under half an hour.
# Its trainings are tiny: one thread each.
audit: export NUMBA_NUM_THREADS = 1
audit: export OPENBLAS_NUM_THREADS = 1
audit: $(FRESH)
	$(BIN)/apportion audit --long --output apportion-results/audit/audit.html
	$(BIN)/pytest -n 2 -q -m slow tests/audit tests/privacy tests/recommend tests/fuzz

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The pictures of the README and of docs/.
pictures: $(READY)
	$(BIN)/python docs/pictures.py

# The lock holds every version, with hashes, for the package and for its tests.
lock: $(READY)
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--all-extras --group dev pyproject.toml -o requirements.lock

# Python 3.11 is what the lock was made for; another interpreter is taken only when asked for.
$(READY): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { \
		echo "$(PYTHON) is not on the PATH. Install Python 3.11, or name another: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

$(LOWEST)/.ready: $(READY)
	rm -rf $(LOWEST)
	$(PYTHON) -m venv $(LOWEST)
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --no-header \
		--all-extras pyproject.toml -o $(LOWEST)/requirements.txt
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python -r $(LOWEST)/requirements.txt --group dev
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --no-deps --no-build-isolation -e .
	@touch $(LOWEST)/.ready

# Compiled code is kept beside the file it is from; when a file changes that it calls into, it is out of date,
# and numba does not notice.
$(FRESH): $(READY) $(wildcard src/apportion/*/*.py)
	@find src -name '*.nb[ic]' -delete
	@touch $(FRESH)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis apportion-results
