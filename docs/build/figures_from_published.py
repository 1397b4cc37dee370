"""Figures of studies that published tables suffice for."""

import functools
from collections.abc import Callable, Iterator

import pandas as pd
from matplotlib.figure import Figure

from rarefeat.workflow.files.published import PublishedTables
from rarefeat.workflow.project import Project, load
from rarefeat.workflow.run.cli_helpers import load_function
from rarefeat.workflow.run.job_inputs import call

STUDY_FIGURES = {
    "augmentation_dial": {"augmentation": "augmentation"},
    "fate_over_time": {"fate_shares": "fate_shares"},
    "fate_push": {"fate_points": "fate_points"},
    "fate_conditions": {"fate_points": "fate_points"},
    "longtail_digits": {"table2": "table2"},
    "fine_labels_errors": {"fine_labels_summary": "fine_labels_errors"},
    "fine_labels_digits_granularity": {"fine_labels_digits_summary": "fine_labels_digits"},
    "digit_neurons": {"digit_neurons": "exact_results"},
    "low_rank_attention": {"low_rank_attention": "exact_results"},
    "nuclear_norm": {"nuclear_norm": "exact_results"},
    "task_mixture": {"task_mixture": "exact_results"},
    "selection_digits": {"selection_digits": "selection_digits"},
    "selection_interventions": {"interventions_selection": "selection_masks"},
    "selection_steps": {"selection_steps": "selection_steps"},
    "half_and_double": {"half_and_double": "half_and_double"},
    "premise": {"premise_replicas": "premise_changes"},
    "invariant_features": {"theorem_numbers": "theorem_means"},
    "which_learners_lockout": {"which_learners_frequencies": "learner_frequencies"},
    "two_layer_printed": {"two_layer_summary": "two_layer_printed"},
}
"""Published table in place of each table of a figure, by figure.

It holds means with their intervals in place of replicas.
"""


def iter_figures(tables: PublishedTables) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """Yield the name of each figure whose tables are published, and the function that draws it."""
    project = load()
    for name, sources in STUDY_FIGURES.items():
        if all(table in tables for table in sources.values()):
            substitutes = {
                result: rows_of_result(tables[table], result) for result, table in sources.items()
            }
            yield name, functools.partial(draw_study_figure, project, name, substitutes)


def rows_of_result(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the rows of one result of a published table, which may have several."""
    rows = table[table["result"] == name] if "result" in table else table
    return rows if len(rows) else table


def draw_study_figure(project: Project, name: str, tables: dict[str, pd.DataFrame]) -> Figure:
    """Draw a figure of a study from published tables."""
    job = project.figure_job(name)
    return call(load_function(job.stage), tables, job)
