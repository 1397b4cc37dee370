"""The stages of the studies of images: data set -> splits -> pretraining -> probes.

A cell is rho, split, width and arm.
"""


rule image_data:
    """Read the images of a data set into one file of tensors."""
    output:
        images="<results>/images/{study}.safetensors",
    log:
        "<results>/logs/images/{study}.log",
    wildcard_constraints:
        study=runs("images.datasets:stage"),
    resources:
        mem_mb=scale_with_attempt(8000),
        runtime=scale_with_attempt(120),
    params:
        *reads("images.datasets:stage", "data"),
    shell:
        "rarefeat run images.datasets:stage {wildcards.study} --output {output:q} > {log:q} 2>&1"


rule image_splits:
    """Choose the images to pretrain on: before any training, so that a wrong rho costs none."""
    input:
        images=rules.image_data.output.images,
    output:
        splits="<results>/splits/{study}/rho={rho}/split={split}/seeds={seeds}.safetensors",
    log:
        "<results>/logs/splits/{study}/rho={rho}/split={split}/seeds={seeds}.log",
    wildcard_constraints:
        study=runs("images.splits:stage"),
    priority: 10
    resources:
        mem_mb=scale_with_attempt(4000),
        runtime=scale_with_attempt(10),
    params:
        *reads("images.splits:stage", "draws", "data", "few_shot"),
    shell:
        "rarefeat run images.splits:stage {wildcards.study}"
        " --cell rho={wildcards.rho}/split={wildcards.split} --seeds {wildcards.seeds}"
        " --output {output:q} > {log:q} 2>&1"


rule pretrain_images:
    """Train one arm seed after seed; checkpoints are no output, as they must outlive a failure."""
    input:
        images=rules.image_data.output.images,
        splits=split_of_cell,
    output:
        encoders="<results>/encoders/{study}/{cell}/seeds={seeds}.safetensors",
        trajectories="<results>/trajectories/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/pretrain/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=runs("images.pretrain:stage"),
    threads: threads_of
    resources:
        mem_mb=scale_with_attempt(8000),
        runtime=lambda wildcards, attempt: attempt * (1440 if gpus(wildcards) else 60),
        gpu=gpus,
    params:
        *reads("images.pretrain:stage", "draws", "arm", "network", "augmentation", "training"),
    shell:
        "rarefeat run images.pretrain:stage {wildcards.study} --cell {wildcards.cell:q}"
        " --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"


rule probe_images:
    """Probe frozen encoders: before the next training, so that finished work can be archived."""
    input:
        images=rules.image_data.output.images,
        splits=split_of_cell,
        encoders=rules.pretrain_images.output.encoders,
    output:
        probes="<results>/probes/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/probe/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=runs("images.probe:stage"),
    priority: 5
    threads: threads_of
    resources:
        mem_mb=scale_with_attempt(8000),
        runtime=scale_with_attempt(60),
        gpu=gpus,
    params:
        *reads("images.probe:stage", "draws", "arm", "network", "probe", "training"),
    shell:
        "rarefeat run images.probe:stage {wildcards.study} --cell {wildcards.cell:q}"
        " --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"
