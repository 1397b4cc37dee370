"""The executor of `snakemake --executor slurm-groups`: Slurm, with one Snakemake a submission.

The plugin `slurm`, whose settings and resources it has, starts a step with a Snakemake of its own
for every job of a group. Here the one that Slurm has started runs them, one after the other.
"""

from snakemake_interface_common.exceptions import WorkflowError

try:
    from snakemake_executor_plugin_slurm import Executor as SlurmExecutor
    from snakemake_executor_plugin_slurm import ExecutorSettings as ExecutorSettings
    from snakemake_executor_plugin_slurm import common_settings as common_settings
except ImportError:  # Snakemake imports every plugin that it finds, whatever executor is asked for
    from snakemake.executors.local import Executor as SlurmExecutor
    from snakemake.executors.local import common_settings as common_settings

    MISSING = "the executor slurm-groups needs more packages: pip install '.[cluster]'"
else:
    MISSING = ""


class Executor(SlurmExecutor):
    """Submit jobs and groups, and wait for them."""

    def __post_init__(self, *arguments, **options) -> None:
        """Check that the packages are there."""
        if MISSING:
            raise WorkflowError(MISSING)
        super().__post_init__(*arguments, **options)

    def additional_general_args(self) -> str:
        """Return the options of the Snakemake in the submission: without a step for each job."""
        return ""
