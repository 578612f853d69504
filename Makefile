# The two commands of the README are `make demo` and `make test`; each sets up its own
# environment in .venv, anew only when pyproject.toml or constraints.txt change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Two OpenMP threads are slower than one here; work is spread over processes instead.
export OMP_NUM_THREADS ?= 1
# Some containers forbid bytecode; each of the many processes would compile all of its modules.
unexport PYTHONDONTWRITEBYTECODE
# The theme otherwise advertises its successor at every build.
export NO_MKDOCS_2_WARNING := 1

.DEFAULT_GOAL := help
.PHONY: help demo test check package portable mutants snapshots site bench validate gallery interop clean \
	contact-sheet pins sbom

help: ## Show the commands
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(READY) ## Run the main job: search an accelerator of 2027 for OSWorld prefill
	$(BIN)/codesign run accelerator-prefill

test: check package ## Check everything: style, types, layers, documentation, packages, tests
	$(BIN)/pytest

check: $(READY) ## All of `make test` but the packages and the tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell codesign docs spaces memtech runs README.md CHANGELOG.md
	$(BIN)/actionlint
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.gate.house
	$(BIN)/mkdocs build --strict
	folder=$$(mktemp -d) && cd $$folder && $(CURDIR)/$(BIN)/codesign run smoke && rm -r $$folder

package: $(READY) ## Install the wheel and the sdist in clean environments of every Python here, and run both
	$(BIN)/python -m tests.gate.package

# Results of tests may depend on the CPU only within their tolerances: all of them without any feature of
# the CPU on a busy machine, then what computes as the kinds between. An hour on two cores.
portable: $(READY) ## Run the tests as other kinds of CPU compute, and on a busy machine
	$(BIN)/python -m tests.gate.other_cpu generic --load 10 pytest
	for cpu in sandybridge haswell zen; do \
		$(BIN)/python -m tests.gate.other_cpu $$cpu pytest tests/golden tests/properties \
			tests/unit/search/optimizers tests/unit/models/machines tests/unit/evaluators || exit 1; done

mutants: $(READY) ## Plant 60 random faults and count those that the tests catch (an hour)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[mutation]'
	$(BIN)/python -m tests.gate.mutants --seed 1 --faults 60

snapshots: $(READY) ## Keep the numbers that commands print now; say in the change why they differ
	CODESIGN_UPDATE_SNAPSHOTS=1 $(BIN)/pytest tests/e2e/test_cli_json.py

pins: $(READY) ## Write the hashes of all pinned versions, .ci/requirements.txt
	uv pip compile --quiet --python-version 3.11 --generate-hashes --no-annotate --no-header \
		--constraint constraints.txt --extra dev --extra mutation pyproject.toml \
		--output-file .ci/requirements.txt

sbom: $(READY) ## List what the environment consists of, with licences: build/sbom.json, build/licences.md
	python3 -m venv build/sbom-tools
	build/sbom-tools/bin/pip install --quiet 'cyclonedx-bom>=7' 'pip-licenses>=5'
	build/sbom-tools/bin/cyclonedx-py environment --output-file build/sbom.json $(BIN)/python
	build/sbom-tools/bin/pip-licenses --python $(BIN)/python --from mixed --format markdown \
		--output-file build/licences.md

site: $(READY) ## Build the documentation in build/site, with every link checked
	$(BIN)/mkdocs build --strict

bench: $(READY) ## Measure the evaluator
	$(BIN)/python -m validation bench

validate: $(READY) ## Compare with simulation, publications, measurements and AISimulate (long)
	python3 -m venv build/aisimulate && build/aisimulate/bin/pip install --quiet 'aisimulate>=0.13,<0.14'
	build/aisimulate/bin/python -I validation/studies/aisimulate_program.py \
		validation/studies/data/aisimulate_questions.csv > build/aisimulate.csv
	mv build/aisimulate.csv validation/studies/data/aisimulate.csv
	$(BIN)/python -m validation

gallery: $(READY) ## Draw the pictures of the documentation anew, and the example report
	folder=$$(mktemp -d) && cd $$folder \
		&& $(CURDIR)/$(BIN)/codesign run osworld-prefill \
		&& $(CURDIR)/$(BIN)/codesign enumerate osworld-prefill --limit 3 \
		&& $(CURDIR)/$(BIN)/codesign report figure osworld-prefill --format png --output $(CURDIR)/docs/images \
		&& $(CURDIR)/$(BIN)/codesign enumerate accelerator-prefill --workers 2 --limit 3 \
		&& $(CURDIR)/$(BIN)/codesign report accelerator-prefill \
			--output $(CURDIR)/docs/images/recommended.png \
		&& for kind in roofline breakdown hierarchy; do \
			$(CURDIR)/$(BIN)/codesign report figure $$kind osworld-prefill --design P1 --format png \
				--output $(CURDIR)/docs/images/$$kind.png || exit 1; done \
		&& sed 's/^optimizers: .*/optimizers: [random]/' \
			$(CURDIR)/runs/problem-system-llama-3.3-70b.yaml > runs/problem-system-llama-3.3-70b.yaml \
		&& $(CURDIR)/$(BIN)/codesign run problem-system-llama-3.3-70b \
		&& $(CURDIR)/$(BIN)/codesign report figure system problem-system-llama-3.3-70b \
			--design P1-D1 --format png \
			--output $(CURDIR)/docs/images/system.png \
		&& $(CURDIR)/$(BIN)/codesign report osworld-prefill \
			--output $(CURDIR)/docs/gallery/osworld-prefill.html \
		&& rm -r $$folder
	$(BIN)/python docs/screenshots.py docs/gallery/osworld-prefill.html docs/images

contact-sheet: $(READY) ## Draw every figure at both widths on one sheet, to look at
	folder=$$(mktemp -d) && cd $$folder \
		&& $(CURDIR)/$(BIN)/codesign run osworld-prefill \
		&& $(CURDIR)/$(BIN)/codesign enumerate osworld-prefill --limit 3 \
		&& $(CURDIR)/$(BIN)/codesign report figure all osworld-prefill --design P1 \
			--output $(CURDIR)/contact-sheet.png && rm -r $$folder

interop: $(READY) ## Load every export in its consumer, each in a new environment (10 minutes)
	folder=$$(mktemp -d) && XDG_CACHE_HOME=$$folder \
		$(BIN)/pytest -n 0 -m slow -rs tests/e2e/test_interop.py; \
		state=$$?; rm -rf $$folder; exit $$state

clean: ## Remove the environment and the caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "codesign needs Python 3.11 or later; try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
		--constraint constraints.txt --editable '.[dev]'
	@touch $(READY)
