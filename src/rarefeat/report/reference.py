"""The pages of docs/reference that are rendered from the code, so that they cannot drift from it."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from pandera.pandas import DataFrameSchema

from rarefeat.chain import file_schemas as chain_files
from rarefeat.chain import tables as chain_tables
from rarefeat.claims import tables as claims_tables
from rarefeat.claims.claim import Claim
from rarefeat.config.images import Augmentation as ImageAugmentation
from rarefeat.config.images import (
    ImageArm,
    ImageData,
    ImageProbe,
    ImageStudy,
    ImageTraining,
    IndexFiles,
    Network,
)
from rarefeat.config.model import Arm, Bias, Data, Training, Views
from rarefeat.config.section import Section
from rarefeat.config.study import Grid, Study
from rarefeat.images import file_schemas as image_files
from rarefeat.project import TopLevelConfig, load
from rarefeat.registry import NAMES, kinds
from rarefeat.run.cli_helpers import run_main
from rarefeat.storage.markdown import escape_tags, markdown_table
from rarefeat.storage.sealed_files import write_file

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


def sections_of_kinds() -> dict[str, type[Section]]:
    """The sections of each kind of study, with their headings."""
    found: dict[str, type[Section]] = {}
    for name, kind in kinds().items():
        found[f"`{name}`: {kind.title}"] = kind.section
        module = kind.load("config")
        for item in vars(module).values():
            own = (
                isinstance(item, type)
                and issubclass(item, Section)
                and item.__module__ == module.__name__
            )
            if own and item is not kind.section:
                found[f"`{name}`, `{item.__name__}`"] = item
    return found


def schemas_of_parts() -> dict[str, dict[str, DataFrameSchema]]:
    """Every schema by the part that makes its table, the chain, the claims or a kind of study, and by its file."""
    modules = {"chain": chain_tables, "claims": claims_tables} | {
        name: kind.load("tables") for name, kind in kinds().items()
    }
    found: dict[str, dict[str, DataFrameSchema]] = {}
    for part, module in modules.items():
        own = (item for item in vars(module).values() if isinstance(item, DataFrameSchema))
        known = {name for others in found.values() for name in others}
        found[part] = {item.name: item for item in own if item.name not in known}
    return found


def schemas() -> dict[str, DataFrameSchema]:
    """Every schema by its file."""
    return {
        name: schema for of_part in schemas_of_parts().values() for name, schema in of_part.items()
    }


def about(part: str) -> str:
    """What makes the tables of a part."""
    titles = {"chain": "Of every study of the encoder", "claims": "Claims"}
    return titles.get(part) or kinds()[part].title


def tables_index() -> str:
    """docs/reference/tables/index.md: every table, and where its columns stand."""
    lines = [
        "# Tables",
        "",
        "Rendered from the schemas in the code by `make docs`; a test keeps them in step. All files lie in `results/tables/`, for the",
        "small grid in `results/quick/tables/`. A file's own metadata says what made it ([report](../../operations/report.md)). `{study}`",
        "is `paper`, or another study of the config; `STUDY.BLOCK`, as in `paper.figure_3_grid`, is one block of its grid. The unit 1",
        "marks what is dimensionless.",
    ]
    for part, of_part in schemas_of_parts().items():
        described = ((f"`{name}.parquet`", schema.description) for name, schema in of_part.items())
        lines += [
            "",
            f"## [{about(part)}]({part}.md)",
            "",
            markdown_table(("table", "rows"), *described),
        ]
    return "\n".join(lines) + "\n"


def tables_page(part: str) -> str:
    """docs/reference/tables/PART.md: every column of the tables of one part."""
    lines = [
        f"# Tables: {about(part)}",
        "",
        "Rendered from the schemas in the code by `make docs`. [All tables](index.md).",
    ]
    for name, schema in schemas_of_parts()[part].items():
        rows = schema.description
        table = [("column", "type", "unit", "definition", "source")]
        for key, item in schema.columns.items():
            kind = "string" if "str" in str(item.dtype) else str(item.dtype)
            null = ", nullable" if item.nullable else ""
            table.append(
                (
                    f"`{key}`",
                    kind + null,
                    item.metadata["unit"],
                    item.description,
                    item.metadata["source"],
                )
            )
        lines += [
            "",
            f"## `{name}.parquet`",
            "",
            f"{rows[0].upper()}{rows[1:]}.",
            "",
            markdown_table(*table),
        ]
    return "\n".join(lines) + "\n"


def parts() -> list[ModuleType]:
    """The modules that declare files: of the chain, of the images, and of each kind of study with stages of its own."""
    return [
        chain_files,
        image_files,
        *filter(None, (kind.load("file_schemas") for kind in kinds().values())),
    ]


def files_page() -> str:
    """docs/reference/files.md: every file of tensors, and every table that is not in `tables/`."""
    lines = [
        "# Files of tensors and intermediate tables",
        "",
        "Rendered from the code by `make docs`; a test holds it against what the stages write. Files lie below `results/`, for the",
        "small grid below `results/quick/`. `{study}` and the like stand for what varies; `{block}` is the first and the last seed of",
        "a block, as in `100-119`, and `{arm}` the label of an arm. Tensors are safetensors files, tables Parquet; the metadata of",
        "both hold a hash of the file, and under `rarefeat` the job that wrote it as JSON: study, cell, seeds, config and digests of",
        "the code. From Python, `rarefeat.load_encoder` reads an encoder through these checks, and `rarefeat.read_table` a table of",
        "the [tables](tables/index.md).",
    ]
    for module in parts():
        axes = ((f"`{axis}`", meaning) for axis, meaning in module.AXES.items())
        lines += ["", f"## {module.TITLE}", "", markdown_table(("axis", "meaning"), *axes)]
        for contents in module.FILES:
            tensors = contents.path.endswith(".safetensors")
            table = [
                ("tensor", "type", "shape", "meaning") if tensors else ("column", "type", "meaning")
            ]
            for entry in contents.entries:
                shape = [shown(entry.shape)] if tensors else []
                table.append((f"`{entry.name}`", entry.type, *shape, entry.meaning))
            written = f"{contents.about} Written by `rarefeat.{contents.stage}`."
            lines += ["", f"### `{contents.path}`", "", written, "", markdown_table(*table)]
    return "\n".join(lines) + "\n"


def shown(shape: tuple[str, ...] | None) -> str:
    """A shape as Python writes it; empty where the meaning says it."""
    return "" if shape is None else f"({', '.join(shape)}{',' if len(shape) == 1 else ''})"


def config_page() -> str:
    """docs/reference/config.md: every key of the top level and of what kinds of study share: type, bounds and meaning."""
    lines = [
        "# Config",
        "",
        "Rendered from the code by `make docs`; a test keeps them in step. The values, with their reasons, are in",
        "`config/config.yaml` and `config/studies/`. What stands at the top level there holds for every study that does",
        "not say otherwise.",
        "Numbers are finite and, counts apart, dimensionless; an unknown key is an error. The keys of each kind of study stand in",
        "[a page of their own](config_studies.md).",
    ]
    return "\n".join([*lines, *keys({"Top level": TopLevelConfig} | SECTIONS)]) + "\n"


def config_studies_page() -> str:
    """docs/reference/config_studies.md: the keys of each kind of study."""
    lines = [
        "# Config of each kind of study",
        "",
        "Rendered from the code by `make docs`. What kinds share: [config](config.md).",
    ]
    return "\n".join([*lines, *keys(sections_of_kinds())]) + "\n"


def keys(sections: Mapping[str, type[Section]]) -> list[str]:
    """A table of keys for each section."""
    lines: list[str] = []
    for title, model in sections.items():
        table = [("key", "allowed", "meaning")]
        for name, item in model.model_json_schema(by_alias=True)["properties"].items():
            default = f"; default {item['default']}" if "default" in item else ""
            table.append((f"`{name}`", allowed(item) + default, item.get("description", "")))
        lines += ["", f"## {title}", "", markdown_table(*table)]
    return lines


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


def every_claim() -> dict[str, list[tuple[Claim, str]]]:
    """Every claim with its primary regime, by its part of a paper's theory."""
    found: dict[str, list[tuple[Claim, str]]] = {}
    for known in load().claim_sets.values():
        for claim in known.claims.values():
            found.setdefault(claim.group, []).append((claim, known.format_regime(claim.primary)))
    return found


def claims_index() -> str:
    """docs/reference/claims/index.md: the parts, and how many claims each has."""
    lines = [
        "# Claims as they are declared",
        "",
        "Rendered from the code by `make docs`; a test keeps them in step. Statement, quantity, range, primary regime, seeds and",
        "control of every claim are written down before the run that tests it; what each verdict means stands in",
        "[the glossary](../../glossary.md#verdicts), what was changed and why in [changes](../../claims/changes.md). `make claims` measures",
        "those of the theory, with an index and a page for each part in `results/`.",
        "",
    ]
    table = [("part", "of", "claims")]
    for group, claims in every_claim().items():
        papers = ", ".join(dict.fromkeys(claim.paper for claim, _ in claims))
        table.append((f"[{group}]({slug(group)}.md)", papers, len(claims)))
    return "\n".join([*lines, markdown_table(*table, right=[2])]) + "\n"


def slug(group: str) -> str:
    """The name of the page of a part."""
    return group.replace(" ", "_")


def claims_page(group: str) -> str:
    """docs/reference/claims/PART.md: each claim with all that is declared of it."""
    lines = [
        f"# Claims: {group}",
        "",
        "Rendered from the code by `make docs`. [All parts](index.md).",
    ]
    for claim, primary in every_claim()[group]:
        seeds = (
            f"{claim.seeds} seeds, which find {claim.effect:g} standard deviations with a power of 0.9"
            if claim.seeds
            else ""
        )
        lines += [
            "",
            f"## {claim.id}",
            "",
            f"{claim.statement[0].upper()}{claim.statement[1:]} ({claim.source}).",
            "",
            f"- Quantity: {claim.quantity}.",
            f"- Required: {claim.required} ({claim.test}): {claim.reason}.",
            f"- Primary regime: {primary}{'; ' * bool(seeds)}{seeds}.",
            f"- Control: {claim.control}.",
        ]
    return escape_tags("\n".join(lines) + "\n")


def rendered() -> dict[str, str]:
    """Every page by its path below docs/."""
    tables = {
        f"reference/tables/{part}.md": tables_page(part) for part in ("chain", "claims", *NAMES)
    }
    claims = {f"reference/claims/{slug(group)}.md": claims_page(group) for group in every_claim()}
    return {
        "reference/config.md": config_page(),
        "reference/config_studies.md": config_studies_page(),
        "reference/files.md": files_page(),
        "reference/tables/index.md": tables_index(),
        "reference/claims/index.md": claims_index(),
        **tables,
        **claims,
    }


def main() -> None:
    """Write the rendered pages into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("docs"))
    folder = parser.parse_args().folder
    for name, text in rendered().items():
        write_file(folder / name, text)


if __name__ == "__main__":
    run_main(main)
