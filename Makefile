# Everything a user or engineer types. `make help` lists it.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install sweep ui doctor validate test check lint format types imports pytest bench soak proto wheel clean

help:  ## list the commands
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(STAMP)  ## create the virtual environment and install pinned dependencies

# compat: a folder xsim in the current directory, as a clone is, then does not hide the package
$(STAMP): pyproject.toml constraints.txt
	@echo 'setting up $(VENV): Python packages are downloaded and installed, which takes a few minutes'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]' \
	  --config-settings editable_mode=compat
	@touch $@

sweep: $(STAMP)  ## run the grid hetero_llama and compare its deployments
	$(BIN)/python -m runners.sweep +grid=hetero_llama

ui: $(STAMP)  ## open the results in the MLflow UI, on 127.0.0.1
	$(BIN)/python -m runners.ui

doctor: $(STAMP)  ## say what would go wrong tonight
	$(BIN)/python -m runners.doctor

validate: $(STAMP)  ## predict measured runs, and fail where a bound is passed; XSIM_REFERENCE_DATA=FOLDER for more of them
	$(BIN)/python -m runners.validate

test: $(STAMP)  ## install, then every check
	@$(MAKE) --no-print-directory check

check: lint types imports pytest  ## ruff, mypy, import-linter, pytest

lint: $(STAMP)  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP)  ## let ruff rewrite the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP)  ## mypy --strict
	$(BIN)/mypy

imports: $(STAMP)  ## which module may import which
	$(BIN)/lint-imports

# files keep the order of tests/conftest.py, longest first: by default those with most tests come first
pytest: $(STAMP)  ## the tests, in as many processes as there are cores
	$(BIN)/pytest -q --numprocesses auto --dist loadfile --no-loadscope-reorder

bench: $(STAMP)  ## speed and memory, as ratios and medians
	$(BIN)/pytest tests/bench --benchmark-only --benchmark-columns=min,median,rounds -q

soak: $(STAMP)  ## the property tests with many more examples
	HYPOTHESIS_PROFILE=soak $(BIN)/pytest -q --numprocesses auto --dist loadfile --no-loadscope-reorder

proto: $(STAMP)  ## regenerate the protobuf code
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. xsim/spec/xsim.proto

wheel: $(STAMP)  ## build a wheel into dist/
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .

clean:  ## remove what was built; results under outputs/ stay
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
