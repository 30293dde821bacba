# Two commands from a fresh clone with Python >= 3.11 and make: `make demo` and `make test`.
# Both use one .venv: the first installs what the demo needs, the second adds the rest, each from
# a committed lock whose hashes pip checks. A lock is complete, so pip resolves nothing (--no-deps):
# otherwise some versions of pip ask for the newest release of what a package names with an extra.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip
DEMO := $(VENV)/.demo-ready
READY := $(VENV)/.ready
WORKERS ?= 2
# What test-deep installs, and how: a CPU build is enough, for example TORCH=torch==2.13.0+cpu with
# TORCH_OPTIONS="--index-url ..." for an index that has it.
TORCH ?= torch>=2.4
TORCH_OPTIONS ?=

# Workers and BLAS threads must not multiply.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help demo test test-deep lint check-lanes fuzz bench docs lock clean

help:
	@echo "make demo       detect the positive instances of three synthetic sets and draw them"
	@echo "make test       lint, types, import layers, all tests and the documentation"
	@echo "make lint       lint, types and import layers only"
	@echo "make docs       build the documentation"
	@echo "make fuzz       read damaged files and models for a few minutes"
	@echo "make bench      time the methods against simple loops (needs PIGMIL_DATA)"
	@echo "make test-deep  tests that need torch, in an environment of their own"
	@echo "make lock       update the pinned versions in requirements/"

$(DEMO): requirements/demo.lock pyproject.toml
	@$(PYTHON) -c "import sys; sys.exit(0 if sys.version_info >= (3, 11) else 'pigmil needs Python 3.11 or newer; set PYTHON=python3.11')"
	@echo "Setting up $(VENV) for the demo (0.7 GB; a few minutes, once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --quiet --no-deps --require-hashes --requirement requirements/demo.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(READY): $(DEMO) requirements/dev.lock
	@echo "Adding the development tools to $(VENV) (1 GB more; a few minutes, once) ..."
	@$(PIP) install --quiet --no-deps --require-hashes --requirement requirements/dev.lock
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

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --cov --cov-report=term --durations=15
	$(MAKE) check-lanes docs

# The kernels as plain Python, and the core install without any extra, from a built wheel.
check-lanes: $(READY)
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest tests/graph tests/core/test_jit.py -q -n $(WORKERS) -m "not compiled" -p no:cacheprovider
	$(PYTHON) -m venv --clear .venv-bare
	.venv-bare/bin/python -m pip install --quiet --no-deps --require-hashes --requirement requirements/core.lock
	$(BIN)/python -m build --no-isolation --wheel --outdir .venv-bare/wheel . >/dev/null
	.venv-bare/bin/python -m pip install --quiet --no-deps .venv-bare/wheel/*.whl
	.venv-bare/bin/python tests/bare_install.py

# Torch is in no lock: it is large, and its builds differ between machines. Its environment sees
# that of the other tests, so that torch is all there is to install.
test-deep: $(READY)
	@$(PYTHON) -m venv .venv-deep
	@$(BIN)/python -c "import site; print(*site.getsitepackages(), '$(CURDIR)/src', sep='\n')" \
		> "$$(.venv-deep/bin/python -c 'import site; print(*site.getsitepackages())')/tests.pth"
	.venv-deep/bin/python -m pip install --quiet $(TORCH_OPTIONS) "$(TORCH)"
	.venv-deep/bin/python -m pytest -q -m deep -p no:cacheprovider tests/deep

fuzz: $(READY)
	@for script in $(wildcard tests/fuzz/fuzz_*.py); do \
		echo $$script; $(BIN)/python $$script || exit 1; done

docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

bench: $(READY)
	$(BIN)/python benchmarks/bench_fit.py
	$(BIN)/python benchmarks/bench_fit.py --large
	$(BIN)/python benchmarks/bench_fit.py --cold
	for what in kernel svm detect; do $(BIN)/python benchmarks/bench_methods_$$what.py || exit 1; done

# One resolution for all platforms and Python versions; the smaller locks repeat versions of dev.lock.
COMPILE = .venv-lock/bin/uv pip compile pyproject.toml --quiet --upgrade --generate-hashes --universal \
	--python-version 3.11 --no-header --no-annotate

lock:
	$(PYTHON) -m venv --clear .venv-lock
	.venv-lock/bin/python -m pip install --quiet uv
	$(COMPILE) --extra all --group dev --output-file requirements/dev.lock >/dev/null
	$(COMPILE) --constraint requirements/dev.lock --extra plot --extra report --extra cli --group install \
		--output-file requirements/demo.lock >/dev/null
	$(COMPILE) --constraint requirements/dev.lock --output-file requirements/core.lock >/dev/null
	rm -rf .venv-lock

clean:
	rm -rf .venv .venv-bare .venv-deep .venv-lock dist build docs/_build demo-output .coverage
