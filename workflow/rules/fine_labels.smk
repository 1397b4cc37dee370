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
        study=runs(TRAIN.function),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(10),
    params:
        *told(stage_job(lambda study: TRAIN)),
        function=TRAIN.function,
    shell:
        "rarefeat run {params.function} {wildcards.study} --cell {wildcards.cell:q}"
        " --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"


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
        study=runs(MEASURE_DETECTORS.function),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(10),
    params:
        *told(stage_job(lambda study: MEASURE_DETECTORS)),
        function=MEASURE_DETECTORS.function,
    shell:
        "rarefeat run {params.function} {wildcards.study} --cell {wildcards.cell:q}"
        " --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"


# The scalar and the direct simulator at the same cells.
rule compare_simulators:
    output:
        simulators="<results>/simulators/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/compare_simulators/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=runs(COMPARE.function),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(20),
    params:
        *told(stage_job(lambda study: COMPARE)),
        function=COMPARE.function,
    shell:
        "rarefeat run {params.function} {wildcards.study} --cell {wildcards.cell:q}"
        " --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"


# Contrastive encoders between coarse and fine labels.
rule train_contrastive:
    output:
        crossing="<results>/crossing/{study}/{cell}/seeds={seeds}.parquet",
        crossing_heads="<results>/crossing_heads/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/train_contrastive/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=runs(CROSS.function),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(20),
    params:
        *told(stage_job(lambda study: CROSS)),
        function=CROSS.function,
    shell:
        "rarefeat run {params.function} {wildcards.study} --cell {wildcards.cell:q}"
        " --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"


# Label granularity on digits.
rule sweep_digits:
    output:
        sweeps="<results>/sweeps/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/sweep_digits/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=runs(SWEEP_DIGITS.function),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(20),
    params:
        *told(stage_job(lambda study: SWEEP_DIGITS)),
        function=SWEEP_DIGITS.function,
    shell:
        "rarefeat run {params.function} {wildcards.study} --cell {wildcards.cell:q}"
        " --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"


# Features of photographs, for clusters. Checkpoints are no output, as they must outlive a failure.
rule represent_photographs:
    input:
        images=rules.image_data.output.images,
    output:
        features="<results>/features/{study}.safetensors",
    log:
        "<results>/logs/represent_photographs/{study}.log",
    wildcard_constraints:
        study=runs(REPRESENT.function),
    threads: threads_of
    resources:
        mem_mb=scale_with_attempt(8000),
        runtime=scale_with_attempt(1440),
        gpu=gpus,
    params:
        *told(stage_job(lambda study: REPRESENT)),
        function=REPRESENT.function,
    shell:
        "rarefeat run {params.function} {wildcards.study}"
        " --output {output:q} > {log:q} 2>&1"


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
        study=runs(SWEEP_PHOTOGRAPHS.function),
    threads: threads_of
    resources:
        mem_mb=scale_with_attempt(8000),
        runtime=scale_with_attempt(1440),
        gpu=gpus,
    params:
        *told(stage_job(lambda study: SWEEP_PHOTOGRAPHS)),
        function=SWEEP_PHOTOGRAPHS.function,
    shell:
        "rarefeat run {params.function} {wildcards.study} --cell {wildcards.cell:q}"
        " --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"
