"""What `rarefeat new` writes: a small working file of a user's own, and the YAML that uses it."""

import importlib.util
import os
import re
import sys
from pathlib import Path

from rarefeat.errors import RarefeatError
from rarefeat.workflow.config.names import LONGEST, shorten_repr
from rarefeat.workflow.project import PACKAGED_FILES, load
from rarefeat.workflow.study_kind import STUDIES

KINDS = {"rule": "arm", "law": "data_law"} | {k: k for k in ("encoder", "loss", "optimiser")}
"""Key of the config of each kind, of which `shipped/new` has a file; a study copies the toy."""
TEMPLATES = PACKAGED_FILES / "new"
TOY = PACKAGED_FILES / "toy"


def read_template(file: str, **words: str) -> str:
    """Read a template, with each word in capitals replaced."""
    text = (TEMPLATES / file).read_text(encoding="utf-8")
    return re.sub(r"\b(NAME|KEY|FUNCTION|COMMAND)\b", lambda m: words.get(m[0], m[0]), text)


def write(kind: str, name: str) -> str:
    """Write the files of one of KINDS, or of a study; return a line that says how they run."""
    if not name.isidentifier() or not name.isascii() or len(name) > LONGEST:
        rule = f"use letters, digits and _, at most {LONGEST}, not beginning with a digit"
        raise RarefeatError(f"new: {shorten_repr(name)}: {rule}")
    if kind == "study":
        module, command = f"rarefeat.studies.{name}", f"{name} claims_{name} --config size=quick"
        # Where kinds of studies are: in a clone src/rarefeat/studies.
        folder = Path(os.path.relpath(STUDIES))
        texts = {end: (TOY / f"toy.{end}").read_text(encoding="utf-8") for end in ("py", "yaml")}
        files = {folder / f"{name}.{end}": text.replace("toy", name) for end, text in texts.items()}
    else:
        module, command = name, f"{name} --configfile {name}.yaml"
        own = re.search(r"^(?:def|class) (\w+)", read_template(f"{kind}.py"), re.MULTILINE)[1]
        words = {"NAME": name, "KEY": KINDS[kind], "FUNCTION": own}
        words["COMMAND"] = f"snakemake --cores 2 {command}"
        config = "arms.yaml" if kind == "rule" else "learners.yaml"
        files = {Path(f"{name}.yaml"): read_template(config, **words)}
        files[Path(f"{name}.py")] = read_template(f"{kind}.py", **words)
    if existing := [path for path in files if path.exists()]:
        raise RarefeatError(f"new: {existing[0]} exists; choose another name or delete it")
    if name in load().targets:
        raise RarefeatError(f"new: {name} is a target of the workflow; choose another name")
    if module in sys.modules or importlib.util.find_spec(module):
        raise RarefeatError(f"new: {module} is an installed Python module; choose another name")
    if not any(map(os.path.exists, ("Snakefile", "workflow/Snakefile"))):
        files[Path("Snakefile")] = read_template("Snakefile", NAME=name)
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return f"{', '.join(map(str, files))} written; run `snakemake --cores 2 {command}`"
