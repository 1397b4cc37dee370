"""Fine-grained labels: networks, contrastive encoders, and networks on images."""


rule train_detectors:
    """Train the detectors of a cell on coarse, on fine or on other labels."""
    output:
        detectors="<results>/detectors/{study}/{cell}/seeds={seeds}.safetensors",
    log:
        "<results>/logs/train_detectors/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=runs("studies.fine_labels.networks:train_detectors"),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(10),
    params:
        *reads(
            "studies.fine_labels.networks:train_detectors",
            "data",
            "learner",
            "detectors",
            "finetuning",
        ),
    shell:
        "rarefeat run studies.fine_labels.networks:train_detectors {wildcards.study}"
        " --cell {wildcards.cell:q} --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"


rule measure_detectors:
    """Measure errors, growth, and linear heads of the trained detectors."""
    input:
        detectors=rules.train_detectors.output.detectors,
    output:
        errors="<results>/errors/{study}/{cell}/seeds={seeds}.parquet",
        heads="<results>/heads/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/measure_detectors/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=runs("studies.fine_labels.networks:measure_detectors"),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(10),
    params:
        *reads(
            "studies.fine_labels.networks:measure_detectors",
            "hierarchy",
            "learner",
            "detectors",
            "finetuning",
            "s_dag",
            "tests",
            "heads",
            "noise",
        ),
    shell:
        "rarefeat run studies.fine_labels.networks:measure_detectors {wildcards.study}"
        " --cell {wildcards.cell:q} --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"


rule compare_simulators:
    """Train the same cells by the scalar and by the direct simulator."""
    output:
        simulators="<results>/simulators/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/compare_simulators/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=runs("studies.fine_labels.networks:compare_simulators"),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(20),
    params:
        *reads(
            "studies.fine_labels.networks:compare_simulators",
            "hierarchy",
            "learner",
            "detectors",
            "tests",
        ),
    shell:
        "rarefeat run studies.fine_labels.networks:compare_simulators {wildcards.study}"
        " --cell {wildcards.cell:q} --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"


rule train_contrastive:
    """Train and measure contrastive encoders between coarse and fine labels."""
    output:
        crossing="<results>/crossing/{study}/{cell}/seeds={seeds}.parquet",
        crossing_heads="<results>/crossing_heads/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/train_contrastive/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=runs("studies.fine_labels.contrastive_encoder:train_contrastive"),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(20),
    params:
        *reads(
            "studies.fine_labels.contrastive_encoder:train_contrastive",
            "hierarchy",
            "training",
            "arms",
            "tests",
            "heads",
        ),
    shell:
        "rarefeat run studies.fine_labels.contrastive_encoder:train_contrastive {wildcards.study}"
        " --cell {wildcards.cell:q} --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"


rule sweep_digits:
    """Pretrain on digits with one kind of labels, fine-tune and probe."""
    output:
        sweeps="<results>/sweeps/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/sweep_digits/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=runs("studies.fine_labels.digits:sweep_digits"),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(20),
    params:
        *reads(
            "studies.fine_labels.digits:sweep_digits",
            "training",
            "levels",
            "candidates",
        ),
    shell:
        "rarefeat run studies.fine_labels.digits:sweep_digits {wildcards.study}"
        " --cell {wildcards.cell:q} --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"


rule represent_photographs:
    """Train the features of photographs; checkpoints are no output, as they outlive a failure."""
    input:
        images=rules.image_data.output.images,
    output:
        features="<results>/features/{study}.safetensors",
    log:
        "<results>/logs/represent_photographs/{study}.log",
    wildcard_constraints:
        study=runs("studies.fine_labels.photographs:represent_photographs"),
    threads: threads_of
    resources:
        mem_mb=scale_with_attempt(8000),
        runtime=scale_with_attempt(1440),
        gpu=gpus,
    params:
        *reads(
            "studies.fine_labels.photographs:represent_photographs",
            "training",
            "features",
        ),
    shell:
        "rarefeat run studies.fine_labels.photographs:represent_photographs"
        " {wildcards.study} --output {output:q} > {log:q} 2>&1"


rule sweep_photographs:
    """Pretrain on photographs with one kind of labels, replica after replica, with checkpoints."""
    input:
        images=rules.image_data.output.images,
        features=lambda wildcards: (
            rules.represent_photographs.output.features
            if STUDIES[wildcards.study].settings(PROJECT.cells[wildcards.study, wildcards.cell])[
                "features"
            ]
            else []
        ),
    output:
        sweeps="<results>/sweeps/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/sweep_photographs/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=runs("studies.fine_labels.photographs:sweep_photographs"),
    threads: threads_of
    resources:
        mem_mb=scale_with_attempt(8000),
        runtime=scale_with_attempt(1440),
        gpu=gpus,
    params:
        *reads(
            "studies.fine_labels.photographs:sweep_photographs",
            "data",
            "training",
            "levels",
            "candidates",
        ),
    shell:
        "rarefeat run studies.fine_labels.photographs:sweep_photographs"
        " {wildcards.study} --cell {wildcards.cell:q} --seeds {wildcards.seeds} --output {output:q}"
        " > {log:q} 2>&1"
