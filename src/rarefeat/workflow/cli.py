"""The command `rarefeat`: lists, new studies, and what made results.

Runs themselves are started by `snakemake`.
"""

import importlib.util
import os
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from rarefeat.errors import RarefeatError
from rarefeat.workflow.config.names import check_name
from rarefeat.workflow.project import DEFAULT, Project, load

CONFIGFILE = click.option("--configfile", multiple=True, help="merged over the default config")


class OneLineErrorGroup(click.Group):
    """A group of commands that prints a RarefeatError as one line."""

    def invoke(self, context: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(context)
        except RarefeatError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=OneLineErrorGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rarefeat")
def main() -> None:
    """Study what contrastive learning and pruning do to rare features, neuron by neuron."""


GROUPS = ("all", "study", "figure", "table", "claim")


def list_items(project: Project) -> Iterable[tuple[str, str, str]]:
    """Yield the group, the name and a text of each study, figure, table and claim."""
    from rarefeat.workflow.registry import kinds
    from rarefeat.workflow.run.cli_helpers import load_function

    for name, study in project.studies.items():
        grid = getattr(study, "summary_text", "") or f"{study.seeds} seeds"
        yield "study", name, f"{kinds()[project.kind_of[name]].title}: {grid}"
    for name, figure in project.figures.items():
        yield "figure", name, figure.caption.replace("\\|", "|")
    for name, table in project.tables.items():
        yield "table", name, load_function(table.schema).description
    for claim_set in project.claim_sets.values():
        for claim in claim_set.claims.values():
            yield "claim", claim.id, claim.statement


def format_overview(project: Project) -> str:
    """Return a paragraph for each kind of study, with its figures, that fits a screen."""
    from rarefeat.workflow.registry import kinds

    lines = []
    for name, kind in kinds().items():
        lines.append(f"{name:16} {click.style(kind.title, bold=True)}")
        figures = " ".join(project.outputs[name].figures)
        lines += textwrap.wrap(figures, 78, initial_indent="  ", subsequent_indent="  ")
    groups = ", ".join(GROUPS[1:])
    return "\n".join([*lines, f"`rarefeat list GROUP` lists one group: {groups}, or all."])


@main.command(name="list")
@click.argument("group", type=click.Choice(GROUPS), required=False)
@CONFIGFILE
def list_(group: str | None, configfile: tuple[str, ...]) -> None:
    """List the kinds of studies with their figures, or each member of one GROUP.

    All but claims are targets of snakemake.
    """
    project = load(DEFAULT, *configfile)
    if group is None:
        click.echo(format_overview(project))
        return
    for item_group, name, text in list_items(project):
        if group in ("all", item_group):
            sentence = " ".join(text.split()).partition(". ")[0].rstrip(".")
            click.echo(f"{item_group:8} {name}  {click.style(sentence[:100], dim=True)}")


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def run(words: tuple[str, ...]) -> None:
    """Run one job by hand, as its rule does; `rarefeat run --help` says how."""
    from rarefeat.workflow.run.command import main as run_job

    run_job(list(words))


@main.command()
@click.argument("file")
def show(file: str) -> None:
    """Show what made the table, figure or page FILE."""
    from rarefeat.workflow import provenance

    click.echo(provenance.show(file))


@main.command()
@click.argument("results")
def verify(results: str) -> None:
    """List the files of the folder RESULTS that are damaged or not what their names say."""
    from rarefeat.workflow import provenance

    lines = provenance.verify(results)
    click.echo("\n".join([*lines, f"{len(lines)} damaged files"]))
    sys.exit(bool(lines))


@main.command()
@click.argument("results", type=Path)
@click.option("--cores", type=click.IntRange(1), default=2, show_default=True, help="jobs at once")
def accept(results: Path, cores: int) -> None:
    """Accept changed code of the files in RESULTS that gives the bytes of a sample of them."""
    from rarefeat.workflow.accept import accept

    for function in (functions := accept(results, cores)):
        click.echo(f"accepted: {function}")
    if not functions:
        click.echo("nothing to accept: no code of these files has changed")


@main.command()
@click.argument("folder", type=Path)
@click.option(
    "--every",
    type=click.IntRange(2),
    default=5,
    show_default=True,
    help="each N-th image of a class is a test image",
)
def images(folder: Path, every: int) -> None:
    """Write the list files train.txt and test.txt of a FOLDER of images.

    It has a subfolder for each class, or train/ and test/ (in any spelling) that have these.
    """
    from rarefeat.images.list_files import write_lists

    click.echo("\n".join(write_lists(folder, every)))


STUDY = """\
# A study of your own; `snakemake --cores 2 {name} --configfile {name}.yaml` makes its tables and
# Figures 1 to 4 of its grid. Other keys of config/config.yaml can be set here too, e.g. training.
results: results
imbalance:
  studies:
    {name}:
      seeds: 10
      arms:
        - {{arm: dense}}
        - {{arm: random_neuron, alpha: 0.1}}
        - {{arm: "{name}:mine", alpha: 0.1}}  # the function `mine` of {name}.py
      grid:
        all:
          eps_min: [0.3, 0.5, 0.7]
          sigma: [0.05]
          arms: [dense, random_neuron, "{name}:mine"]
"""
RULE = '''\
"""Pruning rules of the study in {name}.yaml."""

from torch import Tensor

from rarefeat import PruningContext
from rarefeat.model.pruning import mask_smallest


def mine(context: PruningContext) -> Tensor:
    """Mask the neurons whose embeddings agree least over positive pairs; bool (S, m)."""
    return mask_smallest(context.moments.agreement, context.alpha)
'''
SNAKEFILE = '''\
"""The workflow of the installed package rarefeat; `rarefeat list` names the targets."""
from rarefeat import SNAKEFILE

include: SNAKEFILE
workflow.default_target = "{name}"
'''


@main.command()
@click.argument("name")
def new(name: str) -> None:
    """Write a study with a pruning rule of your own: NAME.yaml, NAME.py and a Snakefile."""
    files = {f"{name}.yaml": STUDY.format(name=name), f"{name}.py": RULE.format(name=name)}
    if not name.isidentifier() or not name.isascii():
        raise RarefeatError(f"new: {name!r}: use letters, digits and _, not beginning with a digit")
    try:
        check_name(name)
    except ValueError as error:
        raise RarefeatError(f"new: {error}") from error
    if existing := [file for file in files if Path(file).exists()]:
        raise RarefeatError(f"new: {existing[0]} exists; choose another name or delete it")
    if name in load().targets:
        raise RarefeatError(f"new: {name} is a target of the workflow; choose another name")
    if name in sys.modules or importlib.util.find_spec(name):
        raise RarefeatError(f"new: {name} is an installed Python module; choose another name")
    if not any(map(os.path.exists, ("Snakefile", "workflow/Snakefile"))):
        files["Snakefile"] = SNAKEFILE.format(name=name)
    for file, text in files.items():
        Path(file).write_text(text, encoding="utf-8")
    click.echo(
        f"{', '.join(files)} written; run `snakemake --cores 2 {name} --configfile {name}.yaml`"
    )


@main.command(name="predict-critical-frequency")
@click.argument("changes", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--sigma", default=0.05, show_default=True, help="standard deviation of the noise")
@click.option("--kappa", type=float, help="first constant of the model, with --gamma")
@click.option("--gamma", type=float, help="second constant of the model, with --kappa")
@click.option("--error", type=float, help="mean absolute error of the model, for the interval")
@click.option("--outside", is_flag=True, help="predict also where the model was not tested")
@CONFIGFILE
def predict(
    changes: tuple[str, ...],
    sigma: float,
    kappa: float | None,
    gamma: float | None,
    error: float | None,
    outside: bool,
    configfile: tuple[str, ...],
) -> None:
    """Predict the eps_min at which half of the replicas learn the rare feature.

    As in `rarefeat predict-critical-frequency m=60`, with the published constants unless others
    are given.
    """
    from rarefeat.api import predict_critical_frequency

    if wrong := [change for change in changes if "=" not in change]:
        raise RarefeatError(f"{wrong[0]}: must be KEY=VALUE, as in m=60")
    values = dict(change.split("=", 1) for change in changes)
    config = load(DEFAULT, *configfile)
    predicted = predict_critical_frequency(
        kappa, gamma, sigma, config=config, error=error, outside=outside, **values
    )
    click.echo(" ".join(f"{name}={value:.4g}" for name, value in predicted._asdict().items()))


main.command("predict-step", hidden=True, deprecated=True, params=predict.params)(predict.callback)


if __name__ == "__main__":
    main()
