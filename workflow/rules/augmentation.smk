"""Measurements of what the two views of a positive pair make an encoder learn."""


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
        *told(
            lambda wildcards: PROJECT.stage_job(
                find_stage("studies.augmentation.measure:supervise_encoders"), ""
            )
        ),
    shell:
        "rarefeat run studies.augmentation.measure:supervise_encoders all"
        " --output {output:q} > {log:q} 2>&1"


rule measure_augmentation:
    """Measure encoders by kind of positive pair: all tables of a study at once."""
    input:
        cell_files("{study}.augmentation"),
        supervised=supervised_encoders,
    output:
        tables(["{study}.augmentation", "{study}.augmentation_neurons"]),
    log:
        "<results>/logs/augmentation/{study}.log",
    wildcard_constraints:
        study=any_of(PROJECT.sections["augmentation"].studies),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(20),
    params:
        *told(lambda wildcards: PROJECT.table_job(f"{wildcards.study}.augmentation")),
    shell:
        "rarefeat run studies.augmentation.measure:measure_augmentation"
        " {wildcards.study}.augmentation --output {output:q} > {log:q} 2>&1"


rule measure_image_views:
    """Measure encoders of images by what their views differ in: all tables at once."""
    input:
        cell_files("{study}.augmentation_images"),
    output:
        tables(
            [
                "{study}.augmentation_images",
                "{study}.augmentation_images_units",
                "{study}.augmentation_images_embedding",
            ]
        ),
    log:
        "<results>/logs/augmentation/{study}.log",
    wildcard_constraints:
        study=any_of(PROJECT.sections["augmentation"].images.studies()),
    resources:
        mem_mb=scale_with_attempt(4000),
        runtime=scale_with_attempt(20),
    params:
        *told(lambda wildcards: PROJECT.table_job(f"{wildcards.study}.augmentation_images")),
    shell:
        "rarefeat run studies.augmentation.representations:measure_image_views"
        " {wildcards.study}.augmentation_images --output {output:q} > {log:q} 2>&1"
