# Everything a newcomer types. After `make venv`, activate .venv and live in `snakemake --cores N`.
PYTHON ?= python3
CORES ?= 2
# Extra arguments for pip, as in PIP_ARGS="--index-url URL" for a CPU or CUDA build of torch.
PIP_ARGS ?=
VENV ?= .venv
BIN := $(VENV)/bin
SNAKEMAKE := $(BIN)/snakemake --cores $(CORES)

.PHONY: paper claims report fetch quick test test-cluster test-faults test-browser test-all check docs publish lint venv clean

paper: venv
	$(SNAKEMAKE)

# Every claim of the theory, on studies of its own and the results of `make paper`.
claims: venv
	$(SNAKEMAKE) all_claims
	$(BIN)/python -m rarefeat.provenance record results

# One page of everything that is there, the claims too where they were made: results/report.html.
CLAIMS_MADE = $(wildcard results/tables/claims.parquet)
report: venv
	$(SNAKEMAKE) --forcerun run_times -- all $(if $(CLAIMS_MADE),all_claims)
	$(SNAKEMAKE) --report results/report.html -- all $(if $(CLAIMS_MADE),all_claims)

# CIFAR from its official address, for the studies of config/cifar10.yaml and config/cifar100.yaml.
fetch: venv
	$(BIN)/python -m rarefeat.images.fetch $(DATASET) $(FOLDER)

quick: venv
	$(SNAKEMAKE) --configfile config/quick.yaml

test: venv
	$(BIN)/pytest

# The profile for clusters under a real Slurm of one node, which it installs where it may; and the dry run of a large grid.
test-cluster: venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt $(PIP_ARGS) --editable '.[dev,cluster]'
	$(BIN)/pytest -m cluster

# Whole runs of the workflow under faults: docs/faults.md.
test-faults: venv
	$(BIN)/pytest -m faults

# The report of the quick grid in Chromium, which is installed where that is allowed.
test-browser: venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt $(PIP_ARGS) --editable '.[dev,browser]'
	$(BIN)/pytest -m browser

# All of these at once, so that they share one run of the small grid.
test-all: venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt $(PIP_ARGS) --editable '.[dev,cluster,browser]'
	$(BIN)/pytest -m ""

# A fresh run of the small grid against the committed reference.
check: venv
	$(SNAKEMAKE) --configfile config/quick.yaml --config results=results/check --forceall
	$(BIN)/python -m rarefeat.check tests/reference/paper_summary.csv results/check/tables/paper_summary.parquet

# The pages of docs/ that are rendered from the code.
docs: venv
	$(BIN)/python -m rarefeat.pages docs

# What `make paper` and `make claims` have measured, as docs/ shows it.
publish: paper claims
	mkdir -p docs/figures
	cp results/figures/*.png docs/figures/
	cp results/summary.md results/claims.md results/table2.md docs/

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

venv: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt $(PIP_ARGS) --editable '.[dev]'
	touch $@

clean:
	rm -rf results .snakemake
