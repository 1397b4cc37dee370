"""The command `rarefeat`: lists, new studies, and what made results.

Runs themselves are started by `snakemake`.
"""

import json
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from rarefeat.errors import RarefeatError
from rarefeat.workflow.new import KINDS, write
from rarefeat.workflow.project import DEFAULT, Project, load
from rarefeat.workflow.run.cli_helpers import load_function


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
    for name, study in project.studies.items():
        yield "study", name, f"{project.title_of(name)}: {study.seeds} seeds"
    for name, figure in project.figures.items():
        yield "figure", name, figure.caption.replace("\\|", "|")
    for name, table in project.tables.items():
        yield "table", name, load_function(table.schema).description
    for claim_set in project.claim_sets.values():
        for claim in claim_set.claims.values():
            yield "claim", claim.id, claim.statement


def format_overview(project: Project) -> str:
    """Return a paragraph for each kind of study, with its figures, that fits a screen."""
    lines = []
    for name, kind in project.kinds.items():
        lines.append(f"{name:16} {click.style(kind.title, bold=True)}")
        figures = " ".join(project.outputs[name].figures)
        lines += textwrap.wrap(figures, 78, initial_indent="  ", subsequent_indent="  ")
    groups = ", ".join(GROUPS[1:])
    return "\n".join([*lines, f"`rarefeat list GROUP` lists one group: {groups}, or all."])


@main.command(name="list")
@click.argument("group", type=click.Choice(GROUPS), required=False)
@click.option("--configfile", multiple=True, help="merged over the default config")
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
    from rarefeat.workflow.run.metadata import read_origin

    click.echo(json.dumps(read_origin(file), indent=2, ensure_ascii=False))


@main.command()
@click.argument("results")
def verify(results: str) -> None:
    """List the files of the folder RESULTS that are damaged, misplaced or out of date.

    It looks for all that the config of the last run plans, and says how much was not made yet.
    """
    from rarefeat.workflow.provenance import verify

    lines, unmade = verify(results)
    if unmade:
        click.echo(f"{len(unmade)} files of a plain snakemake are not there, {unmade[0]} the first")
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


@main.command()
@click.argument("kind", type=click.Choice([*KINDS, "study"]))
@click.argument("name")
def new(kind: str, name: str) -> None:
    """Write a small working file of your own, NAME.py, and the YAML that uses it."""
    click.echo(write(kind, name))


if __name__ == "__main__":
    main()
