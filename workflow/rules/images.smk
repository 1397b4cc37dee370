# The stages of the studies of images: data set -> splits -> pretraining -> probes.
# A cell is rho, split, width and arm.

from rarefeat.workflow.config.images import ImageData
from rarefeat.workflow.study_kind import IMAGE_DATA, IMAGE_PRETRAIN, IMAGE_PROBE, IMAGE_SPLITS


# The images of a data set as one file of tensors.
rule image_data:
    output:
        images="<results>/images/{study}.safetensors",
    log:
        "<results>/logs/images/{study}.log",
    wildcard_constraints:
        study=any_of(
            name
            for name, study in STUDIES.items()
            if isinstance(getattr(study, "data", None), ImageData)
        ),
    resources:
        mem_mb=scale_with_attempt(8000),
        runtime=scale_with_attempt(120),
    params:
        *told(stage_job(IMAGE_DATA)),
        function=IMAGE_DATA.function,
        place=place_of,
    shell:
        RUN_STAGE


# The images to pretrain on, for every seed of a block. All splits come before any training, so that
# a wrong rho costs none.
rule image_splits:
    input:
        images=rules.image_data.output.images,
    output:
        splits="<results>/splits/{study}/rho={rho}/split={split}/seeds={seeds}.safetensors",
    log:
        "<results>/logs/splits/{study}/rho={rho}/split={split}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(IMAGE_STUDIES),
    priority: 10
    resources:
        mem_mb=scale_with_attempt(4000),
        runtime=scale_with_attempt(10),
    params:
        *told(stage_job(IMAGE_SPLITS)),
        function=IMAGE_SPLITS.function,
        place=place_of,
    shell:
        RUN_STAGE


def split_of_cell(wildcards):
    """Return the file of splits of a cell."""
    path = IMAGE_SPLITS.path("splits", wildcards.study, find_cell(wildcards), wildcards.seeds)
    return f"<results>/{path}"


# One arm at one rho and split, seed after seed. Checkpoints are no output, as they must outlive a
# failure.
rule pretrain_images:
    input:
        images=rules.image_data.output.images,
        splits=split_of_cell,
    output:
        encoders="<results>/encoders/{study}/{cell}/seeds={seeds}.safetensors",
        trajectories="<results>/trajectories/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/pretrain/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(IMAGE_STUDIES),
    threads: threads_of
    resources:
        mem_mb=scale_with_attempt(8000),
        runtime=lambda wildcards, attempt: attempt * (1440 if gpus(wildcards) else 60),
        gpu=gpus,
    params:
        *told(stage_job(IMAGE_PRETRAIN)),
        function=IMAGE_PRETRAIN.function,
        place=place_of,
    shell:
        RUN_STAGE


# Linear, few-shot and nearest-neighbour probes of frozen encoders. They come before the next
# training, so that finished work can be archived.
rule probe_images:
    input:
        images=rules.image_data.output.images,
        splits=split_of_cell,
        encoders=rules.pretrain_images.output.encoders,
    output:
        probes="<results>/probes/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/probe/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(IMAGE_STUDIES),
    priority: 5
    threads: threads_of
    resources:
        mem_mb=scale_with_attempt(8000),
        runtime=scale_with_attempt(60),
        gpu=gpus,
    params:
        *told(stage_job(IMAGE_PROBE)),
        function=IMAGE_PROBE.function,
        place=place_of,
    shell:
        RUN_STAGE
