# Two commands from a fresh clone with Python >= 3.11 and make: `make demo` and `make test`.
# Both use one .venv: the first installs what the demo needs, the second adds the rest, each from
# a committed lock whose hashes pip checks. A lock is complete, so pip resolves nothing (--no-deps):
# otherwise some versions of pip ask for the newest release of what a package names with an extra.

PYTHON ?= python3
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
VENV := .venv
BIN := $(VENV)/$(SCRIPTS)
PIP := $(BIN)/python -m pip
LOCKED := install --quiet --no-deps --require-hashes --requirement
DEMO := $(VENV)/.demo-ready
READY := $(VENV)/.ready
FAST := .venv-fast/.ready
WORKERS ?= 2
ARGS ?= --help
N ?= 500
# Tests that need no extra, for the loop of a contributor; other tests need more or take longer.
FAST_TESTS := tests/core tests/bags tests/distances tests/graph tests/exemplars tests/estimators
# What test-deep installs, and how: a CPU build is enough, for example TORCH=torch==2.13.0+cpu with
# TORCH_OPTIONS="--index-url ..." for an index that has it.
TORCH ?= torch>=2.4
TORCH_OPTIONS ?=

# Workers and BLAS threads must not multiply.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help demo test test-unit coverage test-fast test-lowest test-deep lint check-lanes check-release \
	fuzz bench reproduce docs lock clean

help:
	@echo "make demo           detect the positive instances of three synthetic sets; writes a report"
	@echo "make test           everything that a change must pass"
	@echo "make test-fast      tests that need no extra"
	@echo "make coverage       tests, and the share of the code that they run"
	@echo "make lint           lint, types, import layers and the word list"
	@echo "make docs           build the documentation"
	@echo "make reproduce      the tables and figures of the paper, ARGS=\"table1 --quick\""
	@echo "make fuzz           read damaged files of every format, N=500 of each"
	@echo "make bench          time the methods against simple loops (needs PIGMIL_DATA)"
	@echo "make test-deep      tests that need torch, in a separate environment"
	@echo "make test-lowest    tests with the lowest versions that pyproject.toml permits"
	@echo "make check-release  build the distributions and check them, TAG=v0.1.0"
	@echo "make lock           update the pinned versions in requirements/"

$(DEMO): requirements/demo.lock pyproject.toml
	@$(PYTHON) -c "import sys; sys.exit(0 if sys.version_info >= (3, 11) else 'pigmil needs Python 3.11 or newer; set PYTHON=python3.11')"
	@echo "Setting up $(VENV) for the demo (0.7 GB; a few minutes, once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) $(LOCKED) requirements/demo.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(READY): $(DEMO) requirements/dev.lock
	@echo "Adding the development tools to $(VENV) (1 GB more; a few minutes, once) ..."
	@$(PIP) $(LOCKED) requirements/dev.lock
	@touch $@

$(FAST): requirements/test.lock pyproject.toml
	@$(PYTHON) -m venv --clear .venv-fast
	@.venv-fast/$(SCRIPTS)/python -m pip $(LOCKED) requirements/test.lock
	@.venv-fast/$(SCRIPTS)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(DEMO)
	@$(BIN)/python -m pigmil.cli demo --output demo-output
	@echo "To use pigmil in this shell: source $(BIN)/activate"
	@echo "To read files of your own, first: $(BIN)/pip install '.[all]'"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_repository.py words
	$(BIN)/python tools/check_repository.py locks

test: lint test-unit check-lanes docs

test-unit: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations=15 $(MEASURED)

# Apart from `make test`, because measuring makes the tests half as long again.
coverage: MEASURED := --cov --cov-report=term
coverage: test-unit

test-fast: $(FAST)
	.venv-fast/$(SCRIPTS)/python -m pytest -n $(WORKERS) --dist worksteal -q -m "not slow" $(FAST_TESTS)

# The kernels as plain Python, and the core install without any extra, from a built wheel.
check-lanes: $(READY)
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest tests/graph tests/core/test_jit.py -q -n $(WORKERS) -m "not compiled" -p no:cacheprovider
	$(PYTHON) -m venv --clear .venv-bare
	.venv-bare/$(SCRIPTS)/python -m pip $(LOCKED) requirements/core.lock
	$(BIN)/python -m build --no-isolation --wheel --outdir .venv-bare/wheel . >/dev/null
	.venv-bare/$(SCRIPTS)/python -m pip install --quiet --no-deps .venv-bare/wheel/*.whl
	.venv-bare/$(SCRIPTS)/python tests/bare_install.py

# The lowest versions of what pyproject.toml names, first for the core, then with every extra, where
# old packages are found to warn of what newer ones below them deprecate.
test-lowest:
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/$(SCRIPTS)/python -m pip install --quiet uv
	.venv-lowest/$(SCRIPTS)/uv pip install --quiet --python .venv-lowest/$(SCRIPTS)/python \
		--resolution lowest-direct --group test .
	.venv-lowest/$(SCRIPTS)/python tests/bare_install.py
	.venv-lowest/$(SCRIPTS)/python -m pytest -n $(WORKERS) -q -m "not slow" $(FAST_TESTS)
	.venv-lowest/$(SCRIPTS)/uv pip install --quiet --python .venv-lowest/$(SCRIPTS)/python \
		--resolution lowest-direct --group test ".[all]" "polars>=1.10"
	.venv-lowest/$(SCRIPTS)/python -m pytest -n $(WORKERS) -q -m "not slow and not browser" \
		-W ignore::DeprecationWarning tests

# Torch is in no lock: it is large, and its builds differ between machines. Its environment sees
# that of the other tests, so that torch is all there is to install.
test-deep: $(READY)
	@$(PYTHON) -m venv .venv-deep
	@$(BIN)/python -c "import site; print(*site.getsitepackages(), '$(CURDIR)/src', sep='\n')" \
		> "$$(.venv-deep/$(SCRIPTS)/python -c 'import site; print(*site.getsitepackages())')/tests.pth"
	.venv-deep/$(SCRIPTS)/python -m pip install --quiet $(TORCH_OPTIONS) "$(TORCH)"
	.venv-deep/$(SCRIPTS)/python -m pytest -q -m deep -p no:cacheprovider tests/deep

fuzz: $(READY)
	@for script in $(wildcard tests/fuzz/fuzz_*.py); do \
		echo $$script; $(BIN)/python $$script --inputs $(or $(N),500) || exit 1; done

reproduce: $(READY)
	$(BIN)/python -m reproduction $(ARGS)

docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

bench: $(READY)
	$(BIN)/python benchmarks/bench_fit.py
	$(BIN)/python benchmarks/bench_fit.py --large
	$(BIN)/python benchmarks/bench_fit.py --cold
	for what in kernel svm detect; do $(BIN)/python benchmarks/bench_methods_$$what.py || exit 1; done

# Builds dist/ and checks metadata, contents and versions.
check-release: TAG ?= v$(shell sed -n 's/__version__ = "\(.*\)"/\1/p' src/pigmil/_core/__init__.py)
check-release:
	$(PYTHON) tools/check_repository.py release $(TAG)
	$(PYTHON) -m venv --clear .venv-release
	.venv-release/$(SCRIPTS)/python -m pip install --quiet build twine check-wheel-contents "validate-pyproject[all]" pyroma
	rm -rf dist
	.venv-release/$(SCRIPTS)/python -m build
	.venv-release/$(SCRIPTS)/python -m twine check --strict dist/*
	.venv-release/$(SCRIPTS)/check-wheel-contents dist/*.whl
	.venv-release/$(SCRIPTS)/validate-pyproject pyproject.toml
	.venv-release/$(SCRIPTS)/pyroma --min 10 .

# One resolution for all platforms and Python versions; the smaller locks repeat versions of dev.lock.
COMPILE = .venv-lock/$(SCRIPTS)/uv pip compile pyproject.toml --quiet --upgrade --generate-hashes --universal \
	--python-version 3.11 --no-header --no-annotate

lock:
	$(PYTHON) -m venv --clear .venv-lock
	.venv-lock/$(SCRIPTS)/python -m pip install --quiet uv
	$(COMPILE) --extra all --group dev --output-file requirements/dev.lock >/dev/null
	$(COMPILE) --constraint requirements/dev.lock --extra plot --extra report --extra cli --group install \
		--output-file requirements/demo.lock >/dev/null
	$(COMPILE) --constraint requirements/dev.lock --group install --group test \
		--output-file requirements/test.lock >/dev/null
	$(COMPILE) --constraint requirements/dev.lock --output-file requirements/core.lock >/dev/null
	rm -rf .venv-lock

clean:
	rm -rf .venv .venv-* dist build docs/_build demo-output .coverage
