"""The checked project, the environment of its jobs, and what every rule shares."""

import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

from rarefeat.config.images import ImageStudy
from rarefeat.config.study import Study
from rarefeat.config.yaml_reader import read_yaml
from rarefeat.core.errors import RarefeatError
from rarefeat.project import parse as parse_config
from rarefeat.registry import kinds
from rarefeat.run import fork_server, output_cache, results_folder, write_guard

min_version("9.19")


def as_workflow_error(function, *arguments):
    """Return what a function returns; an error of a user's becomes one line of Snakemake's."""
    try:
        return function(*arguments)
    except RarefeatError as error:
        raise WorkflowError(str(error)) from None


# Snakemake takes the last of a key that stands twice in a file; here that is an error.
for path in workflow.configfiles:
    as_workflow_error(read_yaml, Path(path))
PACKAGED_STUDIES = Path(str(workflow.current_basedir)).parents[1] / "config/studies"
PROJECT = as_workflow_error(parse_config, config, Path("config/studies"), PACKAGED_STUDIES)


pathvars:
    results=PROJECT.results,


RESULTS = PROJECT.results
STUDIES = PROJECT.studies
ENCODER_STUDIES = [name for name, study in STUDIES.items() if isinstance(study, Study)]
IMAGE_STUDIES = [name for name, study in STUDIES.items() if isinstance(study, ImageStudy)]
config["captions"] = {name: item.caption for name, item in PROJECT.figures.items()}
config["warning"] = PROJECT.warning
# For the logger: where results are, and the names of targets.
os.environ.update(
    RAREFEAT_RESULTS=RESULTS,
    RAREFEAT_TARGETS=" ".join([*PROJECT.targets, *PROJECT.figure_targets]),
)

if warning := as_workflow_error(results_folder.explain_unrecorded, PROJECT):
    print(warning, file=sys.stderr)

VARIABLES = {
    **fork_server.MALLOC,
    write_guard.PLANNED: write_guard.source_state(),
    output_cache.FOLDER: f"{RESULTS}/.cache" if PROJECT.store_gb else "",
    output_cache.ROOM_GB: PROJECT.store_gb,
}
# Jobs use the Python that runs snakemake, whether or not its environment is activated.
shell.prefix(
    f"export PATH='{os.path.dirname(sys.executable)}':$PATH "
    + " ".join(f"{name}='{value}'" for name, value in VARIABLES.items())
    + "; set -euo pipefail; "
)


onstart:
    as_workflow_error(results_folder.acquire, RESULTS)
    if any(re.fullmatch(r"-[fFR]|--force\w*", word) for word in sys.argv):
        os.environ[output_cache.FORCED] = "yes"
    if workflow.local_exec:
        # The limit of jobs per second wakes the scheduler once a second for each finished job: a
        # quarter of a core after 200 jobs. Jobs of this machine need no limit.
        workflow.scheduler.job_rate_limiter = None
        # A server that has the packages loaded runs them.
        if name := fork_server.start():
            os.environ.update(RAREFEAT_FORK_SERVER=name)


def any_of(names):
    """Return a constraint of a wildcard: one of some names, and nothing where there is none."""
    return "|".join(map(re.escape, names)) or "(?!)"


wildcard_constraints:
    study=any_of(STUDIES),
    seeds=r"\d+-\d+",
    eps_min=r"[^/]+",
    sigma=r"[^/]+",
    rho=r"[^/]+",
    split=r"[^/]+",
