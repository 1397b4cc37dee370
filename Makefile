# Shortcuts. After `make venv` and `source .venv/bin/activate`, use `snakemake --cores N` itself.
PYTHON ?= python3
CORES ?= 2
# Extra arguments for pip, as in PIP_ARGS="--extra-index-url URL" for an index of other builds.
PIP_ARGS ?=
# TORCH=cpu asks for the CPU build of torch, which takes a tenth of the room; it must be on an index
# that pip looks at.
TORCH ?=
VENV ?= .venv
BIN := $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --constraint constraints.txt $(PIP_ARGS) --editable
# Jobs call `rarefeat`, which is beside `snakemake`.
export PATH := $(CURDIR)/$(BIN):$(PATH)
SNAKEMAKE := $(BIN)/snakemake --cores $(CORES)

.PHONY: help quick paper claims selection photographs report fetch check test test-cluster \
  test-browser test-site test-oldest test-all lint docs site publish venv clean

help:
	@echo "make TARGET, with CORES=N for N jobs at once (now $(CORES)). Times are of two cores."
	@echo "  quick        four of thirteen kinds of study, on a tiny grid: a minute"
	@echo "  paper        the paper's figures of 10 seeds: 4 minutes; then of all seeds, and all"
	@echo "               of these four kinds: 100 minutes"
	@echo "  claims       the claims of the pruning paper and of Wen and Li (2021), after paper:"
	@echo "               36 minutes"
	@echo "  selection    which neurons to prune, at full size: 3 hours"
	@echo "  photographs  Table 2 on CIFAR-10, in stages: days"
	@echo "  report       one page of what exists; after quick with CONFIGFILE=config/quick.yaml"
	@echo "  fetch        CIFAR from its official address"
	@echo "  check        the tiny grid against the committed references"
	@echo "  test, test-all, lint, docs, site, publish, venv, clean: see CONTRIBUTING.md"
	@echo "One figure or table: $(SNAKEMAKE) figure1; $(BIN)/rarefeat list names them all."

quick: venv
	$(SNAKEMAKE) --configfile config/quick.yaml

# Figures of 10 seeds come first, so that there is something to see within minutes.
FIRST = results/figures/figure1_aligned_neurons.png
paper: venv
	test -e $(FIRST) || $(SNAKEMAKE) paper heatmap --config most_seeds=10
	@echo "The paper's figures are in $(dir $(FIRST)); next they are drawn with all seeds."
	$(SNAKEMAKE) paper heatmap
	$(SNAKEMAKE)

# On the results of `make paper`, and on studies of their own.
claims: venv
	$(SNAKEMAKE) all_claims

selection: venv
	$(SNAKEMAKE) selection claims_beyond_the_papers --config size=full

# One page of what exists; it computes nothing.
CONFIGFILE ?=
REPORT = results/$(if $(CONFIGFILE),$(basename $(notdir $(CONFIGFILE)))_)report.html
report: venv
	$(SNAKEMAKE) $(addprefix --configfile ,$(CONFIGFILE)) --report $(REPORT) -- existing_outputs

# For the studies of config/cifar10.yaml and config/cifar100.yaml.
fetch: venv
	$(BIN)/python -m rarefeat.images.fetch "$(DATASET)" "$(FOLDER)"

# Table 2 on photographs in stages; config/cifar10_two_cores.yaml says what they are and cost. After
# each stage its small tables are in TABLES. With KEPT, an archive of what finished trainings have
# shown, it continues on another machine with the same code. The archive of the published run is
# docs/kept/cifar10_two_cores.tar.xz, at the commits that docs/tables/origin.json names.
# A killed run leaves no lock behind: the folder of results has one that ends with its process.
RESULTS ?= results
TABLES ?= docs/tables
UNTIL ?= confirm
KEPT ?=
CHOOSE = $(BIN)/python docs/build/staged_protocol.py "$(RESULTS)" --until "$(UNTIL)"
UNPACK = tar --extract --xz --file "$(KEPT)" --directory "$(RESULTS)" --touch --skip-old-files
BLOCK = (logs/)?[^/]+/[^/]+/([^/]+=[^/]+/)*seeds=[^/]*[.](parquet|log[.]tsv)
PACK = find "$(RESULTS)" -regextype posix-extended -regex "$(RESULTS)/$(BLOCK)" -printf '%P\n' | \
  sort | tar --create --xz --file "$(KEPT).new" --directory "$(RESULTS)" --mtime @0 --owner 0 \
  --group 0 --files-from - && mv "$(KEPT).new" "$(KEPT)"
PUBLISH = $(BIN)/python docs/build/published_tables.py
photographs: venv
	while next=$$($(CHOOSE)) || exit 1; test -n "$$next"; do \
	  if test -e "$(KEPT)"; then \
	    mkdir -p "$(RESULTS)" && $(UNPACK) && \
	    $(SNAKEMAKE) --nolock --until image_splits $$next && \
	    find "$(RESULTS)" -path "*/$${next##* }/*" -name 'seeds=*.parquet' -exec touch {} + || \
	    exit 1; \
	  fi; \
	  $(SNAKEMAKE) --nolock $$next; failed=$$?; \
	  { test -z "$(KEPT)" || { $(PACK); }; } && \
	  test $$failed = 0 && $(PUBLISH) "$(RESULTS)" "$(TABLES)" || exit 1; \
	done

check: quick
	$(BIN)/python tests/compare_references.py tests/reference \
	  --configfile config/quick.yaml

# The tests of one file run in one process, as they share what they prepare; all share one run of
# the tiny grid. Files run in the order of tests/conftest.py, the longest first. A worker that
# crashes ends the session, which would otherwise wait forever.
PYTEST = $(BIN)/pytest --numprocesses $(CORES) --dist loadfile --no-loadscope-reorder \
  --max-worker-restart 0

test: venv
	$(PYTEST)

# The profile for clusters under a Slurm of one node, which is installed; and a large grid's plan.
test-cluster: venv
	$(PIP) '.[dev,cluster]'
	$(BIN)/pytest -m cluster -rs

# The report of the tiny grid in Chromium, which is installed.
test-browser: venv
	$(PIP) '.[dev,browser]'
	$(BIN)/pytest -m browser

# The site with every formula.
test-site: venv
	$(PIP) '.[dev,docs]'
	$(BIN)/pytest -m site

# One figure with the oldest Snakemake that pyproject.toml allows, laid over the environment.
OLDEST = $(VENV)/oldest
test-oldest: venv
	$(BIN)/python -m pip install --quiet $(PIP_ARGS) --upgrade --no-deps --target $(OLDEST) \
	  snakemake==9.19.0 appdirs
	PYTHONPATH=$(OLDEST) $(SNAKEMAKE) --configfile config/quick.yaml --config name=oldest -F figure1

test-all: venv
	$(PIP) '.[dev,cluster,browser,docs]'
	$(PYTEST) -m "" -rs

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint
	$(BIN)/lint-imports
	$(BIN)/mypy

# Renders reference/ from the code, and studies/ and the README from docs/templates and docs/tables.
docs: venv
	$(BIN)/python docs/build/reference.py
	$(BIN)/python docs/build/pages.py
	$(BIN)/python docs/build/notebooks.py

# The documentation as a site, in site/. Warnings are errors.
site: venv
	$(PIP) '.[dev,docs]'
	$(BIN)/mkdocs build --strict

# Copies small tables, claims and figures of the results into docs/, and renders the pages.
publish: venv
	$(PUBLISH) results
	$(MAKE) docs

venv: $(VENV)/installed

OLD_PYTHON = Python 3.11 or newer is needed, got %d.%d; name one, as in make venv PYTHON=python3.11
NO_TORCH = "no index of pip has this build of torch; take the URL of one from PyTorch's page on\
  installing it: make venv TORCH=$(TORCH) PIP_ARGS='--extra-index-url URL'"
$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c "import sys; v = sys.version_info[:2]; \
	  sys.exit('$(OLD_PYTHON)' % v if v < (3, 11) else 0)"
	@echo "Setting up $(VENV) with the packages of constraints.txt: some minutes."
	$(PYTHON) -m venv $(VENV)
ifneq ($(TORCH),)
	@$(BIN)/python -m pip install --quiet $(PIP_ARGS) \
	  $$(sed -n 's/^torch==.*/&+$(TORCH)/p' constraints.txt) || { echo $(NO_TORCH) >&2; exit 1; }
endif
	$(PIP) '.[dev]'
	touch $@

clean:
	git clean -qfdx results
	rm -rf .snakemake site
