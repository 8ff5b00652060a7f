# Two commands do everything on a machine with Python 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
FRESH := $(VENV)/.fresh
NATIVE := build/native/.built

.PHONY: native demo test test-slow audit lint types format pictures lock clean

demo: $(FRESH)
	$(BIN)/apportion demo

test: $(FRESH) lint types
	$(BIN)/pytest -n 2 -q

test-slow: $(FRESH)
	$(BIN)/pytest -n 2 -q -m slow

# What tries to prove the guarantee wrong, in its long forms: attacks, kills, forged files. Under half an hour.
# Its trainings are tiny: one thread each.
audit: export NUMBA_NUM_THREADS = 1
audit: export OPENBLAS_NUM_THREADS = 1
audit: $(FRESH)
	$(BIN)/apportion audit --long --output apportion-results/audit/audit.html
	$(BIN)/pytest -n 2 -q -m slow tests/audit tests/privacy tests/accounts tests/recommend tests/fuzz

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror native/*.cpp native/*.hpp

types: $(READY)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i native/*.cpp native/*.hpp

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

# The kernels are built beside the Python files, again whenever a source changes. Without a compiler NumPy does
# their work, more slowly.
native: $(NATIVE)
$(NATIVE): $(READY) CMakeLists.txt $(wildcard native/*)
	@mkdir -p build/native
	@if command -v c++ g++ clang++ >/dev/null; then \
		$(BIN)/cmake -S . -B build/native -G Ninja -DIN_PLACE=ON -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
			-DPython_EXECUTABLE=$(abspath $(BIN))/python >build/native/configure.log && \
		$(BIN)/cmake --build build/native; \
	else echo "no C++ compiler (g++ >= 11 or clang >= 14): NumPy will do the work of the kernels"; fi
	@touch $(NATIVE)

# Compiled code is kept beside the file it is from; when a file changes that it calls into, it is out of date,
# and numba does not notice.
$(FRESH): $(READY) $(NATIVE) $(wildcard src/apportion/*/*.py)
	@find src -name '*.nb[ic]' -delete
	@touch $(FRESH)

clean:
	rm -rf $(VENV) build dist src/apportion/_native*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis apportion-results
