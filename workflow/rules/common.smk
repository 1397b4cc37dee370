"""What the rules share: the checked config, the names of files, and the modules that the results of a stage depend on."""

import json
import os
import re
import signal
import sys

from snakemake.exceptions import WorkflowError
from snakemake.io import regex_from_filepattern
from snakemake.utils import min_version

from rarefeat.browse import PAGES
from rarefeat.config import parse as typed
from rarefeat.figures import (
    AUGMENTATION_FIGURES,
    AUGMENTATION_TABLES,
    CLAIMS_GROUPS,
    CLAIMS_MAPS,
    FIGURES,
    IMAGE_VIEWS_TABLES,
)
from rarefeat.files import RarefeatError, read_table
from rarefeat.provenance import products
from rarefeat.results_folder import handle_in_a_thread, refuse_unrecorded, take
from rarefeat.sizes import trained_points
from rarefeat.sources import sources

min_version("9.19")

# Jobs use the Python that runs snakemake, whether or not its environment is activated.
# A training frees and takes the same megabytes at every step; glibc would hand them back to the system each time, which costs
# half of the speed as soon as two jobs do it at once.
MALLOC = "MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=1073741824"


container: "docker://python:3.11-slim"


def checked_config():
    """The typed config and its products; one line for what is wrong with it."""
    try:
        checked = typed(config)
        return checked, products(checked)
    except RarefeatError as error:
        raise WorkflowError(str(error)) from None


CONFIG, KNOWN = checked_config()
RESULTS = CONFIG.results
# A job knows its run (results_folder.py), so that it writes nothing once another one is in charge.
shell.prefix(
    f"export PATH='{os.path.dirname(sys.executable)}':$PATH {MALLOC} RAREFEAT_LOCK='{RESULTS}/.lock'"
    f" RAREFEAT_RUN=\"$(cat '{RESULTS}/.lock' 2>&-)\"; set -euo pipefail; "
)


onstart:
    try:
        take(RESULTS)
        refuse_unrecorded(workflow.dag)
    except RarefeatError as error:
        raise WorkflowError(str(error)) from None
    handle_in_a_thread(signal.SIGTERM)


# Those of the scaling study are trained where the checkpoint lucky_sets says, and share tables of their own.
STUDIES = (
    CONFIG.studies
    | CONFIG.scaling.studies()
    | CONFIG.claims.every_study()
    | CONFIG.augmentation.studies
)
# Kinds of augmentation are compared on the same draws; the long-tailed studies have draws of their own.
IMAGE_VIEWS = CONFIG.image_views()
IMAGE_STUDIES = CONFIG.images | IMAGE_VIEWS
IMAGE_ARMS = {
    (name, arm.label): arm
    for name, study in IMAGE_STUDIES.items()
    for arm in study.arms
}
POINTS = {
    (name, str(point.eps_min), str(point.sigma)): point
    for name, study in STUDIES.items()
    for point in study.points()
}

PRODUCTS = [
    *[f"{RESULTS}/{path}" for path, product in KNOWN.items() if not product.claims],
    f"{RESULTS}/table2.md",
    f"{RESULTS}/summary.md",
]
# Markdown that the report shows.
TEXTS = {"summary": "trends of the figures", "table2": "Table 2"}


wildcard_constraints:
    study="|".join(map(re.escape, STUDIES)),
    figure="|".join(FIGURES),
    augmentation_figure="|".join(AUGMENTATION_FIGURES),
    group="|".join(CLAIMS_GROUPS),
    map="|".join(CLAIMS_MAPS),
    page="|".join(PAGES),
    text="|".join(TEXTS),
    eps_min=r"[0-9.e-]+",
    sigma=r"[0-9.e-]+",
    block=r"\d+-\d+",
    image_study="|".join(map(re.escape, IMAGE_STUDIES)),
    image_arm="|".join(sorted({re.escape(arm) for _, arm in IMAGE_ARMS})),
    split="long_tailed|balanced",
    rho=r"[0-9.]+",


def growing(amount):
    """A resource that grows with each try, so that a job that ran out of it gets more."""
    return lambda wildcards, attempt: attempt * amount


def code(module):
    """The source files behind a stage: Snakemake does not see what a module imports."""
    return [os.path.relpath(path) for path in sources(module)]


def of_study(part):
    """A params function: a section of the study's config as JSON, so that a change reruns what depends on it."""
    return lambda wildcards: getattr(STUDIES[wildcards.study], part).model_dump_json(
        by_alias=True
    )


def draws_of(wildcards):
    return STUDIES[wildcards.study].draws


def simulator_of(wildcards):
    return STUDIES[wildcards.study].simulator


def point_of(wildcards):
    return POINTS[wildcards.study, wildcards.eps_min, wildcards.sigma]


def arms(chosen):
    """Arms as JSON, for a command line."""
    return json.dumps([arm.model_dump() for arm in chosen])


def files_of(name, kind, suffix, trained_only=False):
    """The files of every point and block of a study."""
    study = STUDIES[name]
    chosen = [point for point in study.points() if point.trained or not trained_only]
    return [f"{RESULTS}/{kind}/{name}/{path}" for path in study.paths(chosen, suffix)]


def scaling_encoders(wildcards):
    """Encoders of the sizes whose lucky sets are large enough, once these have been counted."""
    counted = checkpoints.lucky_sets.get().output[0]
    points = trained_points(CONFIG.scaling, read_table(counted).to_pandas())
    return [
        f"{RESULTS}/encoders/{name}/{path}"
        for name, chosen in points.items()
        for path in STUDIES[name].paths(chosen, "safetensors")
    ]


def encoders_of(wildcards):
    """The trained encoders of a point, where an arm of it has a training."""
    if not point_of(wildcards).trained:
        return []
    return f"{RESULTS}/encoders/{{study}}/eps_min={{eps_min}}/sigma={{sigma}}/seeds={{block}}.safetensors"


def supervised_of(wildcards):
    """The supervised encoders, for a study that has their draws."""
    if CONFIG.augmentation.like_supervised(wildcards.study):
        return [f"{RESULTS}/augmentation/supervised.safetensors"]
    return []


def study_of(wildcards):
    return STUDIES[wildcards.study].model_dump_json(by_alias=True)


def block_of(wildcards):
    """The block of the paper's grid that a figure shows, as an option of its command line."""
    block = FIGURES[wildcards.figure].block
    return (
        f"--block '{STUDIES['paper'].grid[block].model_dump_json()}'" if block else ""
    )


def of_images(part):
    """A params function: a section of an image study as JSON."""
    return lambda wildcards: getattr(
        IMAGE_STUDIES[wildcards.image_study], part
    ).model_dump_json()


def image_arm(wildcards):
    return IMAGE_ARMS[wildcards.image_study, wildcards.image_arm].model_dump_json()


def image_threads(wildcards):
    return IMAGE_STUDIES[wildcards.image_study].training.threads


def gpus(wildcards):
    return int(IMAGE_STUDIES[wildcards.image_study].training.device == "cuda")


def image_draws(wildcards):
    """The name that keys the random draws of an image study."""
    return "views" if wildcards.image_study in IMAGE_VIEWS else wildcards.image_study


def image_cells(kind, studies, suffix="parquet"):
    """The files of every cell and block of image studies."""
    return [
        f"{RESULTS}/images/{name}/{kind}/rho={rho:g}/{split}/{arm.label}/seeds={block}.{suffix}"
        for name, study in studies.items()
        for rho, split, arm in study.cells()
        for block in study.blocks()
    ]


def benchmarks(wildcards):
    """The benchmarks of each rule as a regular expression, as JSON; only when a job is made are all rules known."""
    return json.dumps(
        {
            made.name: regex_from_filepattern(made.benchmark)
            for made in workflow.rules
            if made.benchmark
        }
    )
