"""The pages of docs/ that are rendered from the code, so that they cannot drift from it."""

import argparse
import importlib
from pathlib import Path

from pandera.pandas import DataFrameSchema

from rarefeat.config.images import Augmentation as ImageAugmentation
from rarefeat.config.images import ImageArm, ImageData, ImageProbe, ImageStudy, ImageTraining, IndexFiles, Network
from rarefeat.config.model import Arm, Bias, Data, Training, Views
from rarefeat.config.section import Section
from rarefeat.config.study import Grid, Study
from rarefeat.project import Top
from rarefeat.registry import kinds
from rarefeat.run.command import run
from rarefeat.storage.files import replacing
from rarefeat.storage.markdown import row

SECTIONS = {
    "A study of the encoder": Study,
    "`data`": Data,
    "`data.views`": Views,
    "`training`": Training,
    "`training.bias`": Bias,
    "An entry of `arms`": Arm,
    "A block of `grid`": Grid,
    "A study of images": ImageStudy,
    "`data` of a study of images": ImageData,
    "`data.index_files`": IndexFiles,
    "`network`": Network,
    "`augmentation` of a study of images": ImageAugmentation,
    "`training` of a study of images": ImageTraining,
    "An entry of `arms` of a study of images": ImageArm,
    "`probe`": ImageProbe,
}


def sections() -> dict[str, type[Section]]:
    """Every section of the config with its heading: the top level, those of each kind of study, and what these share."""
    found: dict[str, type[Section]] = {"Top level": Top}
    for name, kind in kinds().items():
        found[f"`{name}`: {kind.title}"] = kind.section
        module = importlib.import_module(f"rarefeat.{kind.module('config')}")
        for item in vars(module).values():
            own = isinstance(item, type) and issubclass(item, Section) and item.__module__ == module.__name__
            if own and item is not kind.section:
                found[f"`{name}`, `{item.__name__}`"] = item
    return found | SECTIONS


def schemas() -> dict[str, DataFrameSchema]:
    """Every schema by its file: those of the chain, of the claims, and of each kind of study."""
    found = {}
    for module in ("chain.tables", "claims.tables", *(kind.module("tables") for kind in kinds().values())):
        for item in vars(importlib.import_module(f"rarefeat.{module}")).values():
            if isinstance(item, DataFrameSchema):
                found.setdefault(item.name, item)
    return found


def tables_page() -> str:
    """docs/tables.md: every column of every table."""
    lines = [
        "# Tables",
        "",
        "Rendered from the schemas in the code by `make docs`; a test keeps them in step. All files lie in `results/tables/`,",
        "for the small grid in `results/quick/tables/`. A file's own metadata says what made it ([report.md](report.md)).",
        "`{study}` is `paper`, or another study of the config; `STUDY.BLOCK`, as in `paper.figure_3_grid`, is one block of its",
        "grid. The unit 1 marks what is dimensionless.",
    ]
    for name, schema in schemas().items():
        rows = schema.description
        lines += ["", f"## `{name}.parquet`", "", f"{rows[0].upper()}{rows[1:]}.", ""]
        lines += [row("column", "type", "unit", "definition", "source"), row(*["---"] * 5)]
        for key, item in schema.columns.items():
            kind = "string" if "str" in str(item.dtype) else str(item.dtype)
            null = ", nullable" if item.nullable else ""
            lines.append(row(f"`{key}`", kind + null, item.metadata["unit"], item.description, item.metadata["source"]))
    return "\n".join(lines) + "\n"


def config_page() -> str:
    """docs/config.md: every key of the config with its type, bounds and meaning."""
    lines = [
        "# Config",
        "",
        "Rendered from the code by `make docs`; a test keeps them in step. The values, with their reasons, are in",
        "`config/config.yaml` and `config/studies/`. What stands at the top level there holds for every study that does",
        "not say otherwise.",
        "Numbers are finite and, counts apart, dimensionless; an unknown key is an error.",
    ]
    for title, model in sections().items():
        lines += ["", f"## {title}", "", row("key", "allowed", "meaning"), row(*["---"] * 3)]
        for name, item in model.model_json_schema(by_alias=True)["properties"].items():
            default = f"; default {item['default']}" if "default" in item else ""
            lines.append(row(f"`{name}`", allowed(item) + default, item.get("description", "")))
    return "\n".join(lines) + "\n"


def allowed(schema: dict) -> str:
    """Type and bounds of a key of a JSON schema, in words."""
    if "$ref" in schema:
        return "a section"
    if "anyOf" in schema:
        return " or ".join(allowed(option) for option in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema["type"] == "array":
        return f"list, each {allowed(schema['items'])}"
    if schema["type"] == "object":
        return "mapping from names to sections"
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    bounds = " and ".join(f"{sign} {schema[key]:g}" for key, sign in signs.items() if key in schema)
    return f"{schema['type']} {bounds}".strip()


PAGES = {"config.md": config_page, "tables.md": tables_page}


def main() -> None:
    """Write the rendered pages into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("docs"))
    folder = parser.parse_args().folder
    for name, render in PAGES.items():
        with replacing(folder / name) as temporary:
            temporary.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    run(main)
