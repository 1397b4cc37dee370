"""Measurements of what the two views of a positive pair make an encoder learn."""

from rarefeat.studies.augmentation.declaration import IMAGE_TABLES, SUPERVISE, TABLES

AUGMENTATION = PROJECT.sections["augmentation"]


rule supervise:
    """Train encoders under labels, which the studies are held against."""
    output:
        "<results>/supervised.safetensors",
    log:
        "<results>/logs/augmentation/supervised.log",
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(20),
    params:
        *told(lambda wildcards: PROJECT.stage_job(SUPERVISE, "")),
    shell:
        f"rarefeat run {SUPERVISE.function} all --output {{output:q}} > {{log:q}} 2>&1"


rule measure_augmentation:
    """Measure encoders by kind of positive pair: all tables of a study at once."""
    input:
        cell_files(f"{{study}}.{TABLES[0]}"),
        supervised=supervised_encoders,
    output:
        tables(f"{{study}}.{name}" for name in TABLES),
    log:
        "<results>/logs/augmentation/{study}.log",
    wildcard_constraints:
        study=any_of(AUGMENTATION.studies),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(20),
    params:
        *told(lambda wildcards: PROJECT.table_job(f"{wildcards.study}.{TABLES[0]}")),
    shell:
        "rarefeat run studies.augmentation.measure:measure_augmentation {wildcards.study}."
        f"{TABLES[0]} --output {{output:q}} > {{log:q}} 2>&1"


rule measure_image_views:
    """Measure encoders of images by what their views differ in: all tables at once."""
    input:
        cell_files(f"{{study}}.{IMAGE_TABLES[0]}"),
    output:
        tables(f"{{study}}.{name}" for name in IMAGE_TABLES),
    log:
        "<results>/logs/augmentation/{study}.log",
    wildcard_constraints:
        study=any_of(AUGMENTATION.images.studies()),
    resources:
        mem_mb=scale_with_attempt(4000),
        runtime=scale_with_attempt(20),
    params:
        *told(lambda wildcards: PROJECT.table_job(f"{wildcards.study}.{IMAGE_TABLES[0]}")),
    shell:
        "rarefeat run studies.augmentation.representations:measure_image_views {wildcards.study}."
        f"{IMAGE_TABLES[0]} --output {{output:q}} > {{log:q}} 2>&1"
