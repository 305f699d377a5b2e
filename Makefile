# `make check` is what CI runs. Every target sets up .venv by itself; see CONTRIBUTING.md.
PYTHON ?= python3
BIN    := .venv/bin
export JAX_PLATFORMS ?= cpu
# Real data, where a developer keeps it beside the checkout; tests that need it skip without it.
export BACKCAST_DATA ?= $(abspath $(wildcard ../shared/data))

.PHONY: check demo test static format format-check lint types imports bench slow constraints clean

check: static test           ## everything CI checks

static: format-check lint types imports

# What the algebra, the filter and the smoother give is checked on four devices as well.
SPREAD := $(addprefix tests/linalg/test_,sharding.py precision.py compress.py) \
          $(addprefix tests/inference/test_,filtering.py smoothing.py)
test: .venv/.ready           ## unit, property, conformance and documentation tests
	JAX_NUM_CPU_DEVICES=4 $(BIN)/pytest -n 2 $(SPREAD)
	$(BIN)/pytest -n 2

demo: .venv/.ready           ## what filtering and smoothing do, on embedded data
	$(BIN)/backcast demo

slow: .venv/.ready           ## studies of minutes, and properties tried on many more examples
	HYPOTHESIS_PROFILE=thorough JAX_NUM_CPU_DEVICES=4 $(BIN)/pytest -n 2 tests/linalg tests/inference
	$(BIN)/pytest -m slow

format: .venv/.ready         ## rewrite files in the house's form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

format-check: .venv/.ready
	$(BIN)/ruff format --check .

lint: .venv/.ready
	$(BIN)/ruff check .

types: .venv/.ready
	$(BIN)/basedpyright

imports: .venv/.ready
	$(BIN)/lint-imports

bench: .venv/.ready          ## side-by-side measurements; see benchmarks/README.md
	$(BIN)/python benchmarks/algebra.py
	$(BIN)/python benchmarks/curvature.py
	$(BIN)/python benchmarks/smoothing.py
	$(BIN)/python benchmarks/step.py

# uv where there is one, venv and pip where not; either way the versions of constraints.txt.
.venv/.ready: pyproject.toml constraints.txt
	@if command -v uv >/dev/null 2>&1; then \
	  echo "Setting up .venv with uv (versions from constraints.txt) ..."; \
	  uv venv --quiet --allow-existing --python $(PYTHON) .venv && \
	  uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[test]'; \
	else \
	  echo "Setting up .venv with venv and pip (versions from constraints.txt) ..."; \
	  $(PYTHON) -m venv .venv && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'; \
	fi
	@touch $@ && echo "Ready: $$($(BIN)/python --version) in .venv"

constraints: pyproject.toml  ## renew the pinned versions (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --all-extras --upgrade \
	  --no-header --no-annotate --no-emit-index-url --no-emit-find-links pyproject.toml -o constraints.txt

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
