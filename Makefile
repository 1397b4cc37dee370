# Everything a newcomer types. After `make venv`, activate .venv and live in `snakemake --cores N`.
PYTHON ?= python3
CORES ?= 2
# Extra arguments for pip, as in PIP_ARGS="--index-url URL" for a CPU or CUDA build of torch.
PIP_ARGS ?=
VENV ?= .venv
BIN := $(VENV)/bin
SNAKEMAKE := $(BIN)/snakemake --cores $(CORES)

.PHONY: paper claims fetch quick test test-cluster test-faults check docs publish lint venv clean

paper: venv
	$(SNAKEMAKE)

# Every claim of the theory, on studies of its own and the results of `make paper`.
claims: venv
	$(SNAKEMAKE) all_claims

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
