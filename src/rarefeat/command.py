"""The command `rarefeat`: what a terminal asks of the laboratory, from any folder."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from rarefeat.core.errors import RarefeatError
from rarefeat.project import DEFAULT, SHIPPED, Project, load, located

PASSED = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""Of a command that hands its arguments on."""
CONFIGFILES = ("--configfile", "--configfiles")
CORES = ("--cores", "-c", "--jobs", "-j", "--executor", "-e", "--profile", "--help", "-h", "--version", "-v")
OWN_CONFIG = click.option("--configfile", multiple=True, help="laid over the config, as in `rarefeat run`; may be given again")


class Lines(click.Group):
    """Commands whose errors that a user can mend are one line."""

    def invoke(self, context: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(context)
        except RarefeatError as error:
            raise click.ClickException(str(error)) from error
        except BrokenPipeError:
            sys.stderr.close()
            context.exit(1)


@click.group(cls=Lines, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rarefeat")
def main() -> None:
    """Study what contrastive learning and pruning do to rare features, neuron by neuron."""


def snakemake_arguments(given: Sequence[str]) -> list[str]:
    """Arguments of Snakemake for the workflow that comes with the package, under a user's own.

    A config of the working directory is the workflow's; without one it is that of the package, below the user's files.
    """
    own, targets, rest = [], [], []
    into = rest
    for word in given:
        option, _, first = word.partition("=")
        if option in CONFIGFILES:
            own += [first] if first else []
            into = targets if first else own
            continue
        if word.startswith("-"):
            into = rest
        elif into is own and Path(word).suffix not in (".yaml", ".yml", ".json"):
            into = targets
        into.append(word)
    found = [] if DEFAULT.exists() else [located(DEFAULT)]
    files = [str(path) for path in (*found, *map(located, own))]
    begin = [*(["--configfile", *files] if files else [])]
    if not {"-s", "--snakefile"} & set(rest):
        begin += ["--snakefile", str(SHIPPED / "workflow/Snakefile")]
    if not any(word.startswith("--workflow-profile") for word in rest):
        begin += ["--workflow-profile", str(SHIPPED / "workflow/profiles/default")]
    if not any(word.partition("=")[0] in CORES or re.fullmatch(r"-[cj]\d+", word) for word in rest):
        begin += ["--cores", "all"]
    # Targets last, where no option that takes several words can take them.
    return [*begin, *rest, *(["--"] if targets and "--" not in rest else []), *targets]


@main.command(context_settings=PASSED, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(arguments: tuple[str, ...]) -> None:
    """Run the workflow: all of it, or targets by name, with Snakemake's own options.

    As in `rarefeat run --cores 2 figure1`, or `rarefeat run -n --configfile config/quick.yaml`.
    """
    command = [sys.executable, "-m", "snakemake", *snakemake_arguments(arguments)]
    # The jobs use the Python that runs Snakemake.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    os.execve(sys.executable, command, os.environ | {"PATH": path})


def first_sentence(text: str, most: int = 100) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split()).partition(". ")[0].rstrip(".")
    return line if len(line) <= most else f"{line[: most - 4]} ..."


def studies_of(project: Project) -> Iterable[tuple[str, str]]:
    """Every study with its kind and its grid."""
    from rarefeat.registry import kinds

    for name, study in project.studies.items():
        words = getattr(study, "in_words", "") or f"{study.seeds} seeds"
        yield name, f"{kinds()[project.kind_of[name]].title}: {words}"


def tables_of(project: Project) -> Iterable[tuple[str, str]]:
    """Every table with what a row of it is."""
    from rarefeat.run.cli_helpers import function_of

    for name, table in project.tables.items():
        yield name, function_of(table.schema).description


def claims_of(project: Project) -> Iterable[tuple[str, str]]:
    """Every claim with its statement."""
    for known in project.declared.values():
        for claim in known.claims.values():
            yield claim.id, claim.statement


LISTS: dict[str, Callable[[Project], Iterable[tuple[str, str]]]] = {
    "studies": studies_of,
    "figures": lambda project: ((name, figure.caption) for name, figure in project.figures.items()),
    "tables": tables_of,
    "claims": claims_of,
}


@main.command(name="list")
@click.argument("what", type=click.Choice(["all", *LISTS]), default="all")
@OWN_CONFIG
def list_(what: str, configfile: tuple[str, ...]) -> None:
    """List studies, figures, tables or claims, a line each: all are targets of `rarefeat run` but claims."""
    project = load(DEFAULT, *configfile)
    for title in LISTS if what == "all" else [what]:
        click.secho(f"{title}:", bold=True)
        for name, text in LISTS[title](project):
            said = first_sentence(text).replace("\\|", "|")  # a stroke as captions have it in tables of Markdown
            click.echo(f"  {name}  {click.style(said, dim=True)}")


@main.command()
@click.argument("table")
@click.option("--results", default="results", show_default=True, help="folder of results")
@click.option("--rows", default=20, show_default=True, help="how many rows to print; 0 for all")
@click.option("--csv", is_flag=True, help="all of it as CSV")
def show(table: str, results: str, rows: int, csv: bool) -> None:
    """Print a TABLE that was made, as in `rarefeat show paper_summary`."""
    import pandas as pd

    from rarefeat.api import read_table

    found = read_table(results, table)
    if csv:
        click.echo(found.to_csv(index=False), nl=False)
        return
    shown = found if not rows else found.head(rows)
    with pd.option_context("display.max_colwidth", 40, "display.width", shutil.get_terminal_size().columns):
        click.echo(shown.to_string(index=False, max_colwidth=40))
    if len(shown) < len(found):
        click.echo(f"{len(found) - len(shown)} more rows; --rows 0 prints all, --csv as CSV")


MODULES = {
    "verify": (
        "rarefeat.manage.provenance",
        ["rarefeat", "verify"],
        "Say of each table and figure whether the config and code of now make it.",
    ),
    "accept": (
        "rarefeat.manage.accept",
        ["rarefeat accept"],
        "Accept an edit of the code that changes no byte, after a sample is made anew.",
    ),
    "images": ("rarefeat.images.lists", ["rarefeat images"], "List the images of a FOLDER, for a study that trains on them."),
}
"""Commands that are command lines of their own: the module, the words that stand before its arguments, and what it does."""


def handed_on(name: str, module: str, before: list[str], about: str) -> None:
    """Add a command that hands its arguments on to a module."""

    @main.command(name=name, help=about, context_settings=PASSED, add_help_option=False)
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def passed(arguments: tuple[str, ...]) -> None:
        from rarefeat.run.cli_helpers import run as ended_in_one_line

        sys.argv = [*before, *arguments]
        ended_in_one_line(importlib.import_module(module).main)


for item in MODULES.items():
    handed_on(item[0], *item[1])


@main.command()
@click.option("--results", default="results", show_default=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--empty", is_flag=True, help="free that room")
def store(results: Path, empty: bool) -> None:
    """Say what room the files of earlier configs take, which are kept so that to change back costs nothing."""
    from rarefeat.run.store import about

    click.echo(about(results, empty))


# A study of a kind that there is; one of a new kind is written in a checkout, from the toy of CONTRIBUTING.md.
STUDY = """\
# A study of your own: `rarefeat run --configfile {name}.yaml {name}` makes its tables and draws Figures 1 to 4 of its grid.
results: results
imbalance:
  studies:
    {name}:
      seeds: 10
      # What holds for every study stands in the default config, and can be said otherwise here: training: {{T: 1000}}
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
"""Rules of your own, for the study of {name}.yaml."""

from torch import Tensor

from rarefeat import Seen
from rarefeat.core.pruning import smallest


def mine(seen: Seen) -> Tensor:
    """What is pruned at a step, bool (S, m): here the neurons whose embeddings agree least over positive pairs."""
    return smallest(seen.moments.agreement, seen.alpha)
'''


@main.command()
@click.argument("name")
def new(name: str) -> None:
    """Write a study of your own with a pruning rule of your own, NAME.yaml and NAME.py."""
    if not name.isidentifier():
        raise RarefeatError(f"{name!r} is no name: letters, digits and _, not beginning with a digit")
    if name in load().targets:
        raise RarefeatError(f"{name} is a study already; give yours another name")
    texts = {Path(f"{name}.yaml"): STUDY.format(name=name), Path(f"{name}.py"): RULE.format(name=name)}
    if there := [path for path in texts if path.exists()]:
        raise RarefeatError(f"{there[0]} is there already; nothing was written")
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    click.echo(f"{name}.yaml and {name}.py are yours to edit; rarefeat run --configfile {name}.yaml {name}")


@main.command(name="predict-step")
@click.argument("kappa", type=float)
@click.argument("gamma", type=float)
@click.argument("changes", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--sigma", default=0.05, show_default=True, help="standard deviation of the noise")
@OWN_CONFIG
def predict_step(kappa: float, gamma: float, changes: tuple[str, ...], sigma: float, configfile: tuple[str, ...]) -> None:
    """Predict the eps_min at which half of the replicas learn the rare feature.

    KAPPA and GAMMA are the law's constants (docs/studies/selection.md), as in `rarefeat predict-step 0.8 10 m=60`.
    """
    from rarefeat.api import predict_step as predicted
    from rarefeat.config.reading import said

    if wrong := [text for text in changes if "=" not in text]:
        raise RarefeatError(f"{wrong[0]}: a change is KEY=VALUE, as in m=60")
    config = load(DEFAULT, *configfile)
    click.echo(f"{predicted(kappa, gamma, sigma, config=config, **said(changes)):.4g}")


@main.command()
def doctor() -> None:
    """Say what this machine has: versions, threads, bfloat16, GPU, Slurm, room on the disk."""
    import importlib.metadata

    import torch

    from rarefeat.run.metadata import PACKAGES

    lines = {"python": f"{sys.version.split()[0]}, {sys.executable}"}
    lines |= {name: importlib.metadata.version(name) for name in PACKAGES}
    lines["config"] = str(located(DEFAULT))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    lines["cores"] = f"{cores} for this process, of {os.cpu_count()}; torch has {torch.get_num_threads()} threads"
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    fast = next((name for name in ("amx_bf16", "avx512_bf16") if name in flags), "")
    lines["bfloat16"] = f"fast, by {fast}" if fast else "no instructions of this processor: slower than float32"
    lines["GPU"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "none that torch can use"
    slurm = shutil.which("sbatch")
    asked = subprocess.run([slurm, "--version"], capture_output=True, encoding="utf-8").stdout.strip() if slurm else "none"
    plugin = "with" if importlib.util.find_spec("snakemake_executor_plugin_slurm") else "without"
    lines["Slurm"] = (
        f"{asked or 'does not say its version'}; {plugin} Snakemake's plugin for it, pip install 'rarefeat[cluster]'"
    )
    lines["disk"] = f"{shutil.disk_usage('.').free / 1e9:,.0f} GB free here"
    for name, text in lines.items():
        click.echo(f"{name:>14}  {text}")


if __name__ == "__main__":
    main()
