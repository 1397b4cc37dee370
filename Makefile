# Everything a newcomer types. After `make venv`, activate .venv and live in `snakemake --cores N`.
PYTHON ?= python3
CORES ?= 2
# Extra arguments for pip, as in PIP_ARGS="--index-url URL" for a CPU or CUDA build of torch.
PIP_ARGS ?=
VENV ?= .venv
BIN := $(VENV)/bin
SNAKEMAKE := $(BIN)/snakemake --cores $(CORES)

.PHONY: help paper claims selection report fetch photographs quick test test-cluster test-faults test-browser test-site test-all check docs site publish lint venv clean

# What there is; it starts nothing.
help:
	@echo "make TARGET, with CORES=N for N jobs at once (now $(CORES)) and PIP_ARGS for pip. Times are of two cores."
	@echo "  quick        the whole workflow on a tiny grid: a minute"
	@echo "  paper        the paper's figures, first with 10 seeds: 5 minutes; then all that is made by default: 100 minutes"
	@echo "  claims       the claims of the pruning paper and of Wen and Li (2021), after paper: 36 minutes"
	@echo "  selection    which neurons to prune, at full size"
	@echo "  photographs  Table 2 on CIFAR-10, stage after stage: days"
	@echo "  report       one page of everything that is there"
	@echo "  fetch        CIFAR from its official address"
	@echo "  check        the tiny grid against the committed references"
	@echo "  test         and test-all, lint, docs, site, publish, venv, clean: CONTRIBUTING.md"
	@echo "One figure or table: $(BIN)/snakemake --cores $(CORES) figure1; $(BIN)/rarefeat list names them all."

# The figures of 10 seeds first, unless there are figures, so that there is something to see within minutes; then all seeds.
FIRST = results/figures/figure1_aligned_neurons.png
paper: venv
	test -e $(FIRST) || $(SNAKEMAKE) paper heatmap --config most_seeds=10
	@echo "The paper's figures are in $(dir $(FIRST)); next they are drawn with all seeds."
	$(SNAKEMAKE) paper heatmap
	$(SNAKEMAKE)

# Every claim of the pruning paper and of Wen and Li (2021), on studies of their own and the results of `make paper`.
claims: venv
	$(SNAKEMAKE) all_claims

# One page of everything that is there, the claims too where they were made: results/report.html.
CLAIMS_MADE = $(wildcard results/tables/claims_*.parquet)
report: venv
	$(SNAKEMAKE) -- all $(if $(CLAIMS_MADE),all_claims)
	$(SNAKEMAKE) --report results/report.html -- all $(if $(CLAIMS_MADE),all_claims)

# CIFAR from its official address, for the studies of config/cifar10.yaml and config/cifar100.yaml.
fetch: venv
	$(BIN)/python -m rarefeat.images.fetch "$(DATASET)" "$(FOLDER)"

# What was pre-registered of the study of selection.
selection: venv
	$(SNAKEMAKE) selection claims_beyond_the_papers --config size=full

# Table 2 on photographs, stage after stage: config/cifar10_two_cores.yaml says what, and what it costs. Its own lock keeps the folder,
# so that a run that was killed leaves none behind. After each run its small tables are in TABLES. With KEPT, an archive of
# what finished trainings have shown, it continues on another machine that has the same code: other code trains anew.
# results/kept/cifar10_two_cores.tar.xz is that of the published run, at the commits that docs/tables/origin.json names.
RESULTS ?= results
TABLES ?= docs/tables
UNTIL ?= confirm
KEPT ?=
CHOOSE = $(BIN)/python -m rarefeat.studies.long_tail.staged_protocol "$(RESULTS)" --until "$(UNTIL)"
photographs: venv
	while next=$$($(CHOOSE)) || exit 1; test -n "$$next"; do \
	  if test -e "$(KEPT)"; then \
	    $(SNAKEMAKE) --nolock --until image_splits $$next && \
	    $(BIN)/python -m rarefeat.manage.archive unpack "$(KEPT)" "$(RESULTS)" $${next##* } || exit 1; \
	  fi; \
	  $(SNAKEMAKE) --nolock $$next; failed=$$?; \
	  { test -z "$(KEPT)" || $(BIN)/python -m rarefeat.manage.archive pack "$(RESULTS)" "$(KEPT)"; } && test $$failed = 0 && \
	  $(BIN)/python -m rarefeat.report.published_tables "$(RESULTS)" "$(TABLES)" || exit 1; \
	done

quick: venv
	$(SNAKEMAKE) --configfile config/quick.yaml

# Tests share one run of the small grid, and those of one file what they prepare, in as many processes as there are cores.
# A worker that crashes ends the tests: with another in its place they would wait for ever at their end.
PYTEST = $(BIN)/pytest --numprocesses $(CORES) --dist loadfile --max-worker-restart 0

test: venv
	$(PYTEST)

# The profile for clusters under a real Slurm of one node, which it installs where it may; and the dry run of a large grid.
test-cluster: venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt $(PIP_ARGS) --editable '.[dev,cluster]'
	$(BIN)/pytest -m cluster -rs

# Whole runs of the workflow under faults: docs/operations/faults.md.
test-faults: venv
	$(PYTEST) -m faults

# The report of the quick grid in Chromium, which is installed where that is allowed.
test-browser: venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt $(PIP_ARGS) --editable '.[dev,browser]'
	$(BIN)/pytest -m browser

# The site, and every formula of its sources in it.
test-site: venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt $(PIP_ARGS) --editable '.[dev,docs]'
	$(BIN)/pytest -m site

# All of these at once.
test-all: venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt $(PIP_ARGS) --editable '.[dev,cluster,browser,docs]'
	$(PYTEST) -m "" -rs

# The small grid against the committed references; what is there already is not made again.
check: quick
	$(BIN)/python -m rarefeat.manage.compare_references tests/reference --configfile config/quick.yaml

# The pages that are rendered: reference/ from the code, studies/ and the README from docs/templates and docs/tables.
docs: venv
	$(BIN)/python -m rarefeat.report.reference
	$(BIN)/python -m rarefeat.report.pages

# A site of docs/ and of the docstrings, in site/. Warnings are errors.
site: venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt $(PIP_ARGS) --editable '.[dev,docs]'
	$(BIN)/mkdocs build --strict

# What is there of `make paper` and `make claims`, into docs/.
publish: venv
	$(BIN)/python -m rarefeat.report.published_tables results
	$(MAKE) docs

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	! $(BIN)/snakemake --lint 2>&1 | grep -vE "Mixed rules|conda environment" | grep -E '^    \* |Error|error'
	$(BIN)/lint-imports

venv: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) with the packages of constraints.txt: some minutes, most of them without a word."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt $(PIP_ARGS) --editable '.[dev]'
	touch $@

clean:
	git clean -qfdx results
	rm -rf .snakemake site
