"""Pages of docs/reference that are rendered from the code: config, tables and files."""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

import augmentation_files
import chain_files
import image_files
from rarefeat.workflow.config.images import Augmentation as ImageAugmentation
from rarefeat.workflow.config.images import (
    ImageArm,
    ImageData,
    ImageProbe,
    ImageStudy,
    ImageTraining,
    IndexFiles,
    Network,
)
from rarefeat.workflow.config.model import Arm, Bias, Data, Training, Views
from rarefeat.workflow.config.section import Section, sections_in
from rarefeat.workflow.config.study import Grid, Study
from rarefeat.workflow.files.markdown import markdown_table
from rarefeat.workflow.files.sealed_files import write_file
from rarefeat.workflow.project import TopLevelConfig
from rarefeat.workflow.registry import kinds, names
from rarefeat.workflow.run.cli_helpers import run_main
from rarefeat.workflow.schemas import schemas_by_maker

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


def sections_of_kind(name: str) -> dict[str, type[Section]]:
    """Return the section of a kind of study and its own sections below that, by heading."""
    found = own_sections(kinds()[name].section)
    sections = {f"`{name}`": next(found)}
    for item in found:
        is_block = item.__name__ == "Points"
        sections["A block of `points`" if is_block else f"`{item.__name__}`"] = item
    return sections


def own_sections(section: type[Section]) -> Iterator[type[Section]]:
    """Yield a section and those below it that a study declares."""
    yield section
    for field in section.model_fields.values():
        for item in sorted(sections_in(field.annotation), key=lambda item: item.__name__):
            if item.__module__.startswith("rarefeat.studies."):
                yield from own_sections(item)


def maker_title(maker: str) -> str:
    """Return the heading of the tables of a maker."""
    titles = {"chain": "Of every study of the encoder", "claims": "Claims"}
    return titles.get(maker) or kinds()[maker].title


def tables_index() -> str:
    """Render docs/reference/tables/index.md: every table, with links to its columns."""
    lines = [
        "# Tables",
        "",
        "Rendered from the schemas in the code by `make docs`; a test keeps them in step. All files"
        " lie in `results/tables/`, for the",
        "small grid in `results/quick/tables/`. A file's own metadata says what made it"
        " ([report](../../operations/report.md)). `{study}`",
        "is `paper`, or another study of the config; `STUDY.BLOCK`, as in `paper.figure_3_grid`, is"
        " one block of its grid. The unit 1",
        "marks what is dimensionless.",
    ]
    for maker, by_name in schemas_by_maker().items():
        rows = ((f"`{name}.parquet`", schema.description) for name, schema in by_name.items())
        lines += [
            "",
            f"## [{maker_title(maker)}]({maker}.md)",
            "",
            markdown_table(("table", "rows"), *rows),
        ]
    return "\n".join(lines) + "\n"


def tables_page(maker: str) -> str:
    """Render docs/reference/tables/MAKER.md: every column of the tables of a maker."""
    lines = [
        f"# Tables: {maker_title(maker)}",
        "",
        "Rendered from the schemas in the code by `make docs`. [All tables](index.md).",
    ]
    for name, schema in schemas_by_maker()[maker].items():
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


def files_page() -> str:
    """Render docs/reference/files.md: every file of tensors, and tables outside of `tables/`."""
    lines = [
        "# Files of tensors and intermediate tables",
        "",
        "Rendered from the code by `make docs`; a test holds it against what the stages write."
        " Files lie below `results/`, for the",
        "small grid below `results/quick/`. `{study}` and the like stand for what varies; `{block}`"
        " is the first and the last seed of",
        "a block, as in `100-119`, and `{arm}` the label of an arm. Tensors are safetensors files,"
        " tables Parquet; the metadata of",
        "both hold a hash of the file, and under `rarefeat` the job that wrote it as JSON: study,"
        " cell, seeds, config and hashes of",
        "the code. From Python, `rarefeat.load_encoder` reads an encoder through these checks, and"
        " `rarefeat.read_table` a table of",
        "the [tables](tables/index.md).",
    ]
    for module in (chain_files, image_files, augmentation_files):
        axes = ((f"`{axis}`", meaning) for axis, meaning in module.AXES.items())
        lines += ["", f"## {module.TITLE}", "", markdown_table(("axis", "meaning"), *axes)]
        for contents in module.FILES:
            tensors = contents.path.endswith(".safetensors")
            table = [
                ("tensor", "type", "shape", "meaning") if tensors else ("column", "type", "meaning")
            ]
            for entry in contents.entries:
                shape = [format_shape(entry.shape)] if tensors else []
                table.append((f"`{entry.name}`", entry.type, *shape, entry.meaning))
            written = f"{contents.about} Written by `rarefeat.{contents.stage}`."
            lines += ["", f"### `{contents.path}`", "", written, "", markdown_table(*table)]
    return "\n".join(lines) + "\n"


def format_shape(shape: tuple[str, ...] | None) -> str:
    """Format a shape as Python does; empty if the meaning of the entry has it."""
    return "" if shape is None else f"({', '.join(shape)}{',' if len(shape) == 1 else ''})"


def config_page() -> str:
    """Render docs/reference/config.md: type, bounds and meaning of every shared key.

    They are those of the top level, and those that kinds of study share.
    """
    lines = [
        "# Config",
        "",
        "Rendered from the code by `make docs`; a test keeps them in step. The values, with their"
        " reasons, are in",
        "`config/config.yaml` and `config/studies/`. What stands at the top level there holds for"
        " every study that does",
        "not say otherwise.",
        "Numbers are finite and, counts apart, dimensionless; an unknown key is an error. The keys"
        " of each kind of study stand in",
        "[pages of their own](config_studies/index.md).",
    ]
    return "\n".join([*lines, *key_tables({"Top level": TopLevelConfig} | SECTIONS)]) + "\n"


def config_pages() -> dict[str, str]:
    """Render a page of keys for each kind of study, and their index, by path below docs/."""
    folder, note = "reference/config_studies", "Rendered from the code by `make docs`."
    index = [f"- [{kind.title}]({name}.md)" for name, kind in kinds().items()]
    pages = {f"{folder}/{name}.md": config_page_of(name, note) for name in kinds()}
    lines = [
        "# Config of each kind of study",
        "",
        f"{note} What kinds share: [config](../config.md).",
    ]
    return pages | {f"{folder}/index.md": "\n".join([*lines, "", *index]) + "\n"}


def config_page_of(name: str, note: str) -> str:
    """Render the keys of a kind of study."""
    lines = [f"# Config of `{name}`: {kinds()[name].title}", "", note]
    return "\n".join([*lines, *key_tables(sections_of_kind(name))]) + "\n"


def key_tables(sections: Mapping[str, type[Section]]) -> list[str]:
    """Return the lines of a table of keys for each section."""
    lines: list[str] = []
    for title, model in sections.items():
        table = [("key", "allowed", "meaning")]
        for name, item in model.model_json_schema(by_alias=True)["properties"].items():
            default = f"; default {item['default']}" if "default" in item else ""
            table.append((f"`{name}`", format_type(item) + default, item.get("description", "")))
        lines += ["", f"## {title}", "", markdown_table(*table)]
    return lines


def format_type(schema: dict) -> str:
    """Format type and bounds of a key of a JSON schema."""
    if "$ref" in schema:
        return "a section"
    if "anyOf" in schema:
        return " or ".join(format_type(option) for option in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema["type"] == "array":
        return f"list, each {format_type(schema['items'])}"
    if schema["type"] == "object":
        return f"mapping from names to {'sections' if '$ref' in str(schema) else 'values'}"
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    bounds = " and ".join(f"{sign} {schema[key]:g}" for key, sign in signs.items() if key in schema)
    return f"{schema['type']} {bounds}".strip()


def render_reference() -> dict[str, str]:
    """Render every page, by its path below docs/."""
    tables = {
        f"reference/tables/{maker}.md": tables_page(maker)
        for maker in ("chain", "claims", *names())
    }
    return {
        "reference/config.md": config_page(),
        **config_pages(),
        "reference/files.md": files_page(),
        "reference/tables/index.md": tables_index(),
        **tables,
    }


def main() -> None:
    """Write the rendered pages into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("docs"))
    folder = parser.parse_args().folder
    for name, text in render_reference().items():
        write_file(folder / name, text)


if __name__ == "__main__":
    run_main(main)
