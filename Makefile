# Two commands from a fresh clone with Python >= 3.11 and make: `make demo` and `make test`.
# Each sets up its own .venv from the committed lock.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2

# Workers and BLAS threads must not multiply.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help demo test lint check-lanes bench docs lock clean

help:
	@echo "make demo    detect the positive instances of three synthetic sets and draw them"
	@echo "make test    lint, types, layers and all tests"
	@echo "make docs    build the documentation"
	@echo "make bench   time the methods beside plain loops of them (needs PIGMIL_DATA)"
	@echo "make lock    renew the pinned versions of the development environment"

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c "import sys; sys.exit(0 if sys.version_info >= (3, 11) else 'pigmil needs Python 3.11 or newer; set PYTHON=python3.11')"
	@echo "Setting up $(VENV) (about a minute, once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --requirement requirements.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(READY)

demo: $(READY)
	@$(BIN)/python -m pigmil.cli demo --output demo-output

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --cov --cov-report=term --durations=15
	$(MAKE) check-lanes docs

# Kernels as plain Python, and the core install without any extra.
check-lanes: $(READY)
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest tests/graph tests/core/test_jit.py -q -n $(WORKERS) -m "not compiled" -p no:cacheprovider
	$(PYTHON) -m venv --clear .venv-bare
	.venv-bare/bin/python -m pip install --quiet --constraint requirements.lock .
	.venv-bare/bin/python tests/bare_install.py

docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

bench: $(READY)
	for what in fit methods_kernel methods_svm methods_detect; do \
		$(BIN)/python benchmarks/bench_$$what.py || exit 1; done

lock:
	$(PYTHON) -m venv --clear .venv-lock
	.venv-lock/bin/python -m pip install --quiet --upgrade pip
	.venv-lock/bin/python -m pip install --quiet --group dev
	.venv-lock/bin/python -m pip freeze --exclude pigmil > requirements.lock
	rm -rf .venv-lock

clean:
	rm -rf .venv .venv-bare .venv-lock dist build docs/_build demo-output .coverage
