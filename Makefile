# Two commands do everything on a machine with Python 3.11 to 3.13 and make: `make demo` and `make test`.
PYTHON ?= $(firstword $(foreach each,python3.11 python3.12 python3.13,$(shell $(each) -c "print('$(each)')" 2>/dev/null)) python3.11)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BUILD := build/native/$(notdir $(VENV))
NATIVE := $(BUILD)/.built
LOWEST := build/lowest
# What depends most on processors, libraries and their versions; under two minutes on two cores.
FAST := tests/test_rounding.py tests/test_warnings.py tests/allocation/test_weights.py \
	tests/data/test_interactions.py tests/data/test_tasks.py tests/engine/contract tests/native/test_users.py \
	tests/privacy/test_bounds.py tests/privacy/test_gaussian.py \
	tests/privacy/test_ledger.py tests/privacy/test_release.py tests/recommend/test_intercepts.py \
	tests/recommend/test_recommender.py \
	tests/soundness/test_row_12_grid.py tests/soundness/test_worst_users.py tests/tasks/test_losses.py \
	tests/tasks/test_shared.py

.PHONY: native demo test engines browser fast lowest test-all test-slow audit docs mutants lint types format pictures screenshot public golden lock sbom clean \
	sanitize sanitize-fast mutants-native test-arm wheel tidy

demo: $(NATIVE)
	$(BIN)/apportion demo

test: $(NATIVE) lint types
	$(BIN)/pytest -n 2 -q

# What other engines and services need besides, from a lock of its own: Spark takes 400 MB. Then `make test` runs
# their tests.
engines: $(NATIVE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-engines.lock

# A real browser for the pages: Debian's Chromium (with root's rights or sudo, unless it is there), and what
# drives it, from a lock of its own. Then `make test` runs the tests in tests/explore/browser.
browser: $(NATIVE)
	@command -v chromium chromium-browser >/dev/null || \
		$$([ "$$(id -u)" = 0 ] || echo sudo) sh -c 'apt-get update -qq && \
			apt-get install -y -qq --no-install-recommends chromium >/dev/null'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-browser.lock

fast: $(NATIVE)
	$(BIN)/pytest -n 2 -q $(FAST) $(ALSO)

# With the lowest versions that pyproject.toml allows, and the newest tools for tests that go with them.
lowest: $(LOWEST)/.ready
	$(LOWEST)/bin/pytest -n 2 -q $(FAST) $(ALSO)

# The fast tests on other machines, as far as this one can play them.
test-all:
	.ci/machines

test-slow: $(NATIVE)
	$(BIN)/pytest -n 2 -q -m slow

# What tries to prove the guarantee wrong, in its long forms: attacks, kills, forged files. Under half an hour.
# Its trainings are tiny: one thread each.
audit: export APPORTION_NUM_THREADS = 1
audit: export OPENBLAS_NUM_THREADS = 1
audit: $(NATIVE)
	$(BIN)/apportion audit --long --output apportion-results/audit/audit.html
	$(BIN)/pytest -n 2 -q -m slow tests/audit tests/privacy tests/accounts tests/recommend tests/fuzz

# Plants small faults, one at a time, in the Python that bounds, sums and counts, then in the kernels; the tests must
# notice 95 of 100. docs/explanation/mutants.md says why the others do no harm. FEW="--share 0.1" takes a sample.
mutants: export APPORTION_NUM_THREADS = 1
mutants: export OPENBLAS_NUM_THREADS = 1
mutants: $(NATIVE)
	$(BIN)/python -m tests.mutants.run $(FEW)
	$(MAKE) mutants-native

# Kernels that watch themselves: reads and writes out of bounds, what C++ leaves undefined, races of threads.
ADDRESS := .ci/sanitized address "address;undefined;float-cast-overflow" libasan.so
sanitize: $(NATIVE)
	$(ADDRESS) tests/native tests/engine/contract tests/fuzz/test_kernels.py
	.ci/sanitized thread thread libtsan.so tests/native/test_sums.py tests/native/test_gradients.py \
		tests/native/test_sorting.py tests/native/test_users.py tests/native/test_topk.py tests/native/test_solves.py

# A selection of it, for every change of the kernels.
sanitize-fast: $(NATIVE)
	$(ADDRESS) tests/fuzz/test_kernels.py tests/native/test_noise.py

# Small faults in the C++ that bounds, sums and samples: tests must notice at least 95 of 100.
mutants-native: $(NATIVE)
	$(BIN)/python -m tests.mutants.native

# The kernels' tests on aarch64, under qemu-user (needs Debian's cross compiler).
test-arm: $(NATIVE)
	.ci/arm tests/native/test_noise.py tests/native/test_sums.py tests/native/test_users.py \
		tests/native/test_solves.py tests/native/test_gradients.py tests/native/test_topk.py

# Wheels in dist/, checked and tried in fresh environments.
wheel:
	.ci/wheels

# All sources of the kernels; `make lint` takes only those that differ from the last commit.
tidy: $(NATIVE)
	.ci/tidy native/*.cpp

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror native/*.cpp native/*.hpp
	.ci/tidy $$(git diff --name-only --diff-filter=d HEAD -- 'native/*.cpp' 2>/dev/null)

types: $(READY)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i native/*.cpp native/*.hpp

# The documentation site, in build/site: tutorials are run, warnings are errors, links between pages are checked.
docs: $(NATIVE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/sphinx-build -q -W --keep-going -b html docs build/site
	@echo "open build/site/index.html"

# The pictures of the README and of docs/.
pictures: $(READY)
	$(BIN)/python docs/pictures.py

# The README's picture of the explorer.
screenshot: browser demo
	PYTHONPATH=. $(BIN)/python docs/screenshot.py

# The list of public names, after one has changed; CONTRIBUTING.md says what goes with that.
public: $(NATIVE)
	$(BIN)/python -m tests.test_public

# One file of each format that is written now: tests/golden/README.md says when.
golden: $(NATIVE)
	$(BIN)/python -m tests.golden.make $(FOLDER)

# The lock holds every version, with hashes, for the package and for its tests.
lock: $(READY)
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--extra accounting --extra losses --extra figures --group dev pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--extra spark --extra spark-connect --extra serving --group service --constraint requirements.lock pyproject.toml \
		-o requirements-engines.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--constraint requirements.lock --group browser -o requirements-browser.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--constraint requirements.lock --group docs -o requirements-docs.lock

# What is installed with the package and its extras, as locked: a CycloneDX list in build/sbom.json. It is checked
# against the schema; the tool that writes it has an environment of its own.
sbom: $(READY)
	$(BIN)/pip install --quiet uv
	@mkdir -p build
	$(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--all-extras -c requirements.lock pyproject.toml -o build/installed.txt
	$(BIN)/python -m uv tool run --quiet --from 'cyclonedx-bom==7.0.0' cyclonedx-py requirements --pyproject pyproject.toml \
		--mc-type library --output-reproducible --validate -o build/sbom.json build/installed.txt
	@$(BIN)/python -c "import json; found = json.load(open('build/sbom.json')); \
		print(len(found['components']), 'packages in build/sbom.json, CycloneDX', found['specVersion'])"

# The lock serves Python 3.11 to 3.13. The first of them that runs is taken, unless another is asked for.
$(READY): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { \
		echo "$(PYTHON) is not on the PATH. Install Python 3.11, 3.12 or 3.13, or name one: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

# The kernels are built beside the Python files, again whenever a source changes. Without a compiler NumPy does
# their work, more slowly.
native: $(NATIVE)
$(NATIVE): $(READY) CMakeLists.txt $(wildcard native/*)
	@mkdir -p $(BUILD)
	@if command -v c++ g++ clang++ >/dev/null; then \
		$(BIN)/cmake -S . -B $(BUILD) -G Ninja -DIN_PLACE=ON -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
			-DPython_EXECUTABLE=$(abspath $(BIN))/python >$(BUILD)/configure.log && \
		$(BIN)/cmake --build $(BUILD); \
	else echo "no C++ compiler (g++ >= 11 or clang >= 14): NumPy will do the work of the kernels"; fi
	@touch $(NATIVE)

$(LOWEST)/.ready: $(NATIVE)
	rm -rf $(LOWEST)
	$(PYTHON) -m venv $(LOWEST)
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --no-header \
		--extra accounting --extra losses --extra figures pyproject.toml -o $(LOWEST)/requirements.txt
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python -r $(LOWEST)/requirements.txt --group dev
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --no-deps --no-build-isolation -e .
	@touch $(LOWEST)/.ready

clean:
	rm -rf $(VENV) build dist src/apportion/_native*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis apportion-results
