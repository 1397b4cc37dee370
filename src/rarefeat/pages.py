"""The pages of docs/ that are rendered from the code, so that they cannot drift from it."""

import argparse
from pathlib import Path

from rarefeat.command import run
from rarefeat.config import Augmentation, Claims, Config, Grid, ImageViews, Scaling, Sensitivity, Study, Supervised
from rarefeat.files import replacing
from rarefeat.images.sections import Augmentation as ImageAugmentation
from rarefeat.images.sections import (
    ImageArm,
    ImageData,
    ImageProbe,
    ImageStudy,
    ImageTraining,
    IndexFiles,
    Network,
)
from rarefeat.sections import Arm, Bias, Data, Training, Views
from rarefeat.tables import SCHEMAS

FILES = {
    "grid": ("`{study}_grid.parquet`", "a row per (eps_min, sigma, arm with its keys, seed)"),
    "summary": ("`{study}_summary.parquet`", "a row per (eps_min, sigma, arm with its keys, metric)"),
    "trends": (
        "`{study}_trends.parquet`",
        "a row per (block of the grid, sigma, arm with its keys, metric); `paired_difference` is the mean over the block",
    ),
    "trajectories": ("`{study}_trajectories.parquet`", "a row per (eps_min, sigma, arm with its keys, seed, step, metric)"),
    "cross_check": (
        "`cross_check.parquet`",
        "a row per (eps_min, sigma, arm with its keys, metric) that both simulators have run",
    ),
    "heatmap": (
        "`alignment_heatmap.parquet`",
        "a row per (eps_min, sigma, arm with its keys, seed, neuron, feature) of the study `heatmap`",
    ),
    "milestones": (
        "`{study}_milestones.parquet`",
        "a row per (eps_min, sigma, arm with its keys, seed, metric) of a study of the claims",
    ),
    "one_step": ("`{study}_one_step.parquet`", "a row per (eps_min, sigma, seed, metric) of a study of the claims, dense arm"),
    "overlap": ("`{study}_overlap.parquet`", "a row per (eps_min, sigma, step, alpha) of a study of the claims, dense arm"),
    "augmentation": (
        "`augmentation.parquet`",
        "a row per (study, eps_min, sigma, arm with its keys, seed, encoder, labels, metric) of the study of augmentation",
    ),
    "augmentation_course": ("`augmentation_course.parquet`", "the same by step, of the trained encoders"),
    "augmentation_neurons": ("`augmentation_neurons.parquet`", "a row per (study, point, arm, seed, encoder, neuron)"),
    "augmentation_embedding": ("`augmentation_embedding.parquet`", "a row per (study, point, encoder, test sample)"),
    "augmentation_images": ("`augmentation_images.parquet`", "a row per (kind of views, network, seed, metric) on images"),
    "augmentation_images_units": (
        "`augmentation_images_units.parquet`",
        "a row per (kind of views, network, seed, layer, channel) on images",
    ),
    "augmentation_images_embedding": (
        "`augmentation_images_embedding.parquet`",
        "a row per (kind of views, network, test image)",
    ),
    "claims": ("`claims.parquet`", "a row per (claim, regime)"),
    "lucky_sets": ("`lucky_sets.parquet`", "a row per (d, ratio) of the scaling study"),
    "scaling": ("`scaling.parquet`", "a row per (d, m, d1, ratio, seed) that the scaling study trains"),
    "longtail": ("`longtail.parquet`", "a row per (dataset, rho, split, arm with its keys, seed) of the image studies"),
    "longtail_classes": ("`longtail_classes.parquet`", "a row per (row of longtail, probe, class)"),
    "longtail_summary": ("`longtail_summary.parquet`", "a row per (dataset, rho, split, arm with its keys, probe, metric)"),
    "longtail_trajectories": ("`longtail_trajectories.parquet`", "a row per (row of longtail, epoch, metric)"),
    "scaling_exponents": (
        "`scaling_exponents.parquet`",
        "a row per (quantity, ratio, d1_power, range of d, log_power) of the scaling study",
    ),
}


SECTIONS = {
    "Top level": Config,
    "A study": Study,
    "`data`": Data,
    "`training`": Training,
    "`training.bias`": Bias,
    "An entry of `arms`": Arm,
    "A block of `grid`": Grid,
    "`scaling`": Scaling,
    "`claims`": Claims,
    "`claims.sensitivity`": Sensitivity,
    "`augmentation`": Augmentation,
    "`augmentation.supervised`": Supervised,
    "`augmentation.images`": ImageViews,
    "`data.views`": Views,
    "An entry of `images`": ImageStudy,
    "`data` of an image study": ImageData,
    "`data.index_files`": IndexFiles,
    "`network` of an image study": Network,
    "`augmentation` of an image study": ImageAugmentation,
    "`training` of an image study": ImageTraining,
    "An entry of `arms` of an image study": ImageArm,
    "`probe`": ImageProbe,
}


def row(*cells: str) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def tables_page() -> str:
    """docs/tables.md: every column of every table."""
    lines = [
        "# Tables",
        "",
        "Rendered from `src/rarefeat/tables.py` by `make docs`; a test keeps them in step. All files lie in `results/tables/`,",
        "for the small grid in `results/quick/tables/`. A file's own metadata says what made it ([report.md](report.md)).",
        "`{study}` is `paper`, or another study of the config. The unit 1 marks what is dimensionless.",
    ]
    for name, (file, rows) in FILES.items():
        lines += ["", f"## {file}", "", f"{rows[0].upper()}{rows[1:]}.", ""]
        lines += [row("column", "type", "unit", "definition", "source"), row(*["---"] * 5)]
        for key, item in SCHEMAS[name].columns.items():
            kind = "string" if "str" in str(item.dtype) else str(item.dtype)
            null = ", nullable" if item.nullable else ""
            lines.append(row(f"`{key}`", kind + null, item.metadata["unit"], item.description, item.metadata["source"]))
    return "\n".join(lines) + "\n"


def config_page() -> str:
    """docs/config.md: every key of the config with its type, bounds and meaning."""
    lines = [
        "# Config",
        "",
        "Rendered from `src/rarefeat/config.py` by `make docs`; a test keeps them in step. The values, with their reasons, are",
        "in `config/config.yaml`. What stands at the top level there holds for every study that does not say otherwise.",
        "Numbers are finite and, counts apart, dimensionless; an unknown key is an error.",
    ]
    for title, model in SECTIONS.items():
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
            temporary.write_text(render())


if __name__ == "__main__":
    run(main)
