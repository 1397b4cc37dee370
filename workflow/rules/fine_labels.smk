# Fine-grained labels: detectors, contrastive encoders, and networks on images.

from rarefeat.studies.fine_labels.declaration import (
    COMPARE,
    CROSS,
    MEASURE as MEASURE_DETECTORS,
    REPRESENT,
    SWEEP_DIGITS,
    SWEEP_PHOTOGRAPHS,
    TRAIN,
)


# Trains the detectors of a cell on coarse or on fine labels.
rule train_detectors:
    output:
        detectors="<results>/detectors/{study}/{cell}/seeds={seeds}.safetensors",
    log:
        "<results>/logs/train_detectors/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(PROJECT.studies_of(TRAIN)),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(10),
    params:
        *told(stage_job(TRAIN)),
        function=TRAIN.function,
        place=place_of,
    shell:
        RUN_STAGE


# Errors, growth, and linear heads of the trained detectors.
rule measure_detectors:
    input:
        detectors=rules.train_detectors.output.detectors,
    output:
        errors="<results>/errors/{study}/{cell}/seeds={seeds}.parquet",
        trajectories="<results>/trajectories/{study}/{cell}/seeds={seeds}.parquet",
        heads="<results>/heads/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/measure_detectors/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(PROJECT.studies_of(MEASURE_DETECTORS)),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(10),
    params:
        *told(stage_job(MEASURE_DETECTORS)),
        function=MEASURE_DETECTORS.function,
        place=place_of,
    shell:
        RUN_STAGE


# The scalar and the direct simulator at the same cells.
rule compare_simulators:
    output:
        simulators="<results>/simulators/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/compare_simulators/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(PROJECT.studies_of(COMPARE)),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(20),
    params:
        *told(stage_job(COMPARE)),
        function=COMPARE.function,
        place=place_of,
    shell:
        RUN_STAGE


# Contrastive encoders between coarse and fine labels.
rule train_contrastive:
    output:
        crossing="<results>/crossing/{study}/{cell}/seeds={seeds}.parquet",
        crossing_heads="<results>/crossing_heads/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/train_contrastive/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(PROJECT.studies_of(CROSS)),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(20),
    params:
        *told(stage_job(CROSS)),
        function=CROSS.function,
        place=place_of,
    shell:
        RUN_STAGE


# Label granularity on digits.
rule sweep_digits:
    output:
        sweeps="<results>/sweeps/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/sweep_digits/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(PROJECT.studies_of(SWEEP_DIGITS)),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(20),
    params:
        *told(stage_job(SWEEP_DIGITS)),
        function=SWEEP_DIGITS.function,
        place=place_of,
    shell:
        RUN_STAGE


# Features of photographs, for clusters. Checkpoints are no output, as they must outlive a failure.
rule represent_photographs:
    input:
        images=rules.image_data.output.images,
    output:
        features="<results>/features/{study}.safetensors",
    log:
        "<results>/logs/represent_photographs/{study}.log",
    wildcard_constraints:
        study=any_of(PROJECT.studies_of(REPRESENT)),
    threads: threads_of
    resources:
        mem_mb=scale_with_attempt(8000),
        runtime=scale_with_attempt(1440),
        gpu=gpus,
    params:
        *told(stage_job(REPRESENT)),
        function=REPRESENT.function,
        place=place_of,
    shell:
        RUN_STAGE


def clustered_features(wildcards):
    """Return the features of photographs, where the labels of a cell are clusters of them."""
    _, scheme = STUDIES[wildcards.study].by_cell()[find_cell(wildcards)]
    return rules.represent_photographs.output.features if scheme.clustered else []


# Label granularity on photographs, replica after replica, with checkpoints.
rule sweep_photographs:
    input:
        images=rules.image_data.output.images,
        features=clustered_features,
    output:
        sweeps="<results>/sweeps/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/sweep_photographs/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(PROJECT.studies_of(SWEEP_PHOTOGRAPHS)),
    threads: threads_of
    resources:
        mem_mb=scale_with_attempt(8000),
        runtime=scale_with_attempt(1440),
        gpu=gpus,
    params:
        *told(stage_job(SWEEP_PHOTOGRAPHS)),
        function=SWEEP_PHOTOGRAPHS.function,
        place=place_of,
    shell:
        RUN_STAGE
