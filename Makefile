# Everything a person or CI needs. The environment is made on first use and again when its inputs change.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: help install demo test test-slow test-lowest audit lint types format docs bench release clean

help:  ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

# torch goes first, pinned: asked for by range it would bring gigabytes of CUDA packages.
$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

install: $(STAMP)  ## Create .venv and install everything into it

demo: $(STAMP)  ## Train on the sprites, print the table, draw Figure 5 (under three minutes)
	$(BIN)/instaaug demo

# Bytecode is kept even where the shell says otherwise: it halves the time of collection.
test: lint types  ## The default suite: lint, types, tests, every example in code and documents
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n 2 --dist worksteal

test-slow: $(STAMP)  ## What trains for minutes
	$(BIN)/python -m pytest -m slow

# Deprecations are of newer packages that old ones use, and not ours.
LOWEST_TORCH ?= 2.4.0
test-lowest:  ## The default suite with everything the package needs at its lower bound
	@test -x build/lowest/bin/python || $(PYTHON) -m venv build/lowest
	.ci/lowest $(LOWEST_TORCH) > build/lowest.txt
	build/lowest/bin/python -m pip install --quiet --constraint build/lowest.txt torch
	build/lowest/bin/python -m pip install --quiet --constraint build/lowest.txt --editable '.[dev]'
	OMP_NUM_THREADS=1 build/lowest/bin/python -m pytest -m "not slow" -n 2 --dist worksteal -W ignore::DeprecationWarning

audit:  ## Known holes in the versions of constraints.txt (asks the network)
	@test -x build/audit/bin/python || $(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet pip-audit
	build/audit/bin/pip-audit --no-deps --disable-pip --requirement constraints.txt

lint: $(STAMP)  ## Ruff and codespell
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell

types: $(STAMP)  ## Mypy, strict
	$(BIN)/mypy

format: $(STAMP)  ## Rewrite files in house style
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@

GALLERY := build/gallery/frozen.html
$(GALLERY): $(STAMP) docs/.site/gallery.py $(wildcard src/instaaug/report/page/*/*)
	$(BIN)/python docs/.site/gallery.py build/gallery

docs: $(VENV)/.docs $(GALLERY)  ## The site, in build/site; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(STAMP)  ## The budgets, measured (about 20 minutes; nothing else should run)
	$(BIN)/instaaug bench

release:  ## Wheel and sdist in dist, tried in an empty environment
	PYTHON=$(PYTHON) .ci/release

clean:  ## Remove what can be made again
	rm -rf $(VENV) runs .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
