# Coarse and fine labels on hierarchical samples: networks by the scalar simulator, some of them also by the direct one. And the
# granularity sweeps on images.

from rarefeat.studies.fine_labels.config import CROSSING, DIGITS, DIRECT, SCALAR
from rarefeat.studies.fine_labels.kind import CROSSED
from rarefeat.studies.fine_labels.kind import TABLES as FINE_LABELS_TABLES

FINE_LABELS = PROJECT.sections["fine_labels"]


# The networks of one k and one kind of labels.
rule train_detectors:
    output:
        f"{RESULTS}/detectors/{{study}}/{{cell}}/seeds={{block}}.safetensors",
    log:
        f"{RESULTS}/logs/train_detectors/{{study}}/{{cell}}/seeds={{block}}.log",
    wildcard_constraints:
        study=SCALAR,
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        job=told(
            "studies.fine_labels.train", (), lambda study, cell: study.trained(cell)
        ),
    shell:
        stage("--output {output:q}")


# Their errors, their growth, and linear heads on them.
rule measure_detectors:
    input:
        of_cell("detectors", "safetensors"),
    output:
        errors=f"{RESULTS}/errors/{{study}}/{{cell}}/seeds={{block}}.parquet",
        trajectories=f"{RESULTS}/trajectories/{{study}}/{{cell}}/seeds={{block}}.parquet",
        heads=f"{RESULTS}/heads/{{study}}/{{cell}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/measure_detectors/{{study}}/{{cell}}/seeds={{block}}.log",
    wildcard_constraints:
        study=SCALAR,
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        job=told(
            "studies.fine_labels.measure",
            ("studies.fine_labels.train",),
            lambda study, cell: study.measured(cell),
        ),
    shell:
        stage(
            "--detectors {input:q} --errors {output.errors:q} --trajectories {output.trajectories:q} --heads {output.heads:q}"
        )


# Both simulators on the same draws.
rule compare_simulators:
    output:
        f"{RESULTS}/simulators/{{study}}/{{cell}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/compare_simulators/{{study}}/{{cell}}/seeds={{block}}.log",
    wildcard_constraints:
        study=DIRECT,
    resources:
        mem_mb=growing(2000),
        runtime=growing(20),
    params:
        job=told(
            "studies.fine_labels.compare", (), lambda study, cell: study.measured(cell)
        ),
    shell:
        stage("--output {output:q}")


rule aggregate_fine_labels:
    input:
        [
            of_study(kind, SCALAR, "parquet")
            for kind in ("errors", "trajectories", "heads")
        ],
    output:
        **{
            name.removeprefix("fine_labels_"): table(name)
            for name in FINE_LABELS_TABLES
        },
    log:
        f"{RESULTS}/logs/aggregate/{SCALAR}.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        job=told_for_table(FINE_LABELS_TABLES[0]),
        results=lambda wildcards: RESULTS,
    shell:
        stage(
            "--results {params.results:q} --errors {output.errors:q} --summary {output.summary:q}"
            " --trajectories {output.trajectories:q} --heads {output.heads:q}"
        )


rule aggregate_simulators:
    input:
        of_study("simulators", DIRECT, "parquet"),
    output:
        table("fine_labels_simulators"),
    log:
        f"{RESULTS}/logs/aggregate/{DIRECT}.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        job=told_for_table("fine_labels_simulators"),
        results=lambda wildcards: RESULTS,
    shell:
        stage("--results {params.results:q} --simulators {output:q}")


# Contrastive encoders on the same data: every arm of one k and kind of positive pair.
rule train_contrastive:
    output:
        crossing=f"{RESULTS}/crossing/{{study}}/{{cell}}/seeds={{block}}.parquet",
        heads=f"{RESULTS}/crossing_heads/{{study}}/{{cell}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/train_contrastive/{{study}}/{{cell}}/seeds={{block}}.log",
    wildcard_constraints:
        study=CROSSING,
    resources:
        mem_mb=growing(2000),
        runtime=growing(20),
    params:
        job=told(
            "studies.fine_labels.crossing",
            (),
            lambda study, cell: study.measured(cell),
        ),
    shell:
        stage("--crossing {output.crossing:q} --crossing_heads {output.heads:q}")


rule aggregate_crossing:
    input:
        [of_study(kind, CROSSING, "parquet") for kind in ("crossing", "crossing_heads")],
    output:
        crossing=table(CROSSED[0]),
        heads=table(CROSSED[1]),
    log:
        f"{RESULTS}/logs/aggregate/{CROSSING}.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        job=told_for_table(CROSSED[0]),
        results=lambda wildcards: RESULTS,
    shell:
        stage(
            "--results {params.results:q} --crossing {output.crossing:q} --crossing_heads {output.heads:q}"
        )


# The sweep on the digits: one coarse task and kind of labels, all replicas of a block at once.
rule sweep_digits:
    output:
        f"{RESULTS}/sweeps/{{study}}/{{cell}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/sweep/{{study}}/{{cell}}/seeds={{block}}.log",
    wildcard_constraints:
        study=DIGITS,
    resources:
        mem_mb=growing(2000),
        runtime=growing(20),
    params:
        job=told(
            "studies.fine_labels.granularity.digits",
            (),
            lambda study, cell: study.measured(cell),
        ),
    shell:
        stage("--output {output:q}")


rule sweep_images:
    output:
        f"{RESULTS}/images/{{study}}.safetensors",
    log:
        f"{RESULTS}/logs/images/{{study}}.log",
    wildcard_constraints:
        study=either(FINE_LABELS.photographs),
    resources:
        mem_mb=growing(8000),
        runtime=growing(120),
    params:
        job=told("images.datasets", (), ("data",)),
    shell:
        stage("--output {output:q}")


# The features that clusters are made of. Checkpoints, here and below, are no output, so that they outlive a failure.
rule represent_photographs:
    input:
        f"{RESULTS}/images/{{study}}.safetensors",
    output:
        f"{RESULTS}/features/{{study}}.safetensors",
    log:
        f"{RESULTS}/logs/features/{{study}}.log",
    wildcard_constraints:
        study=either(FINE_LABELS.photographs),
    threads: threads_of
    resources:
        mem_mb=growing(8000),
        runtime=growing(1440),
        gpu=gpus,
    params:
        job=told(
            "studies.fine_labels.granularity.represent",
            ("images.datasets",),
            ("data", "training", "features"),
        ),
        checkpoints=f"{RESULTS}/checkpoints/{{study}}",
    shell:
        stage(
            "--images {input:q} --checkpoints {params.checkpoints:q} --output {output:q}"
        )


# The same sweep on photographs: the replicas of a block one after the other.
rule sweep_photographs:
    input:
        images=f"{RESULTS}/images/{{study}}.safetensors",
        # Where a cell has clusters of them.
        features=lambda wildcards: [
            f"{RESULTS}/features/{wildcards.study}.safetensors"
        ]
        * STUDIES[wildcards.study].by_cell()[cell_of(wildcards)][1].clustered,
    output:
        f"{RESULTS}/sweeps/{{study}}/{{cell}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/sweep/{{study}}/{{cell}}/seeds={{block}}.log",
    wildcard_constraints:
        study=either(FINE_LABELS.photographs),
    threads: threads_of
    resources:
        mem_mb=growing(8000),
        runtime=growing(1440),
        gpu=gpus,
    params:
        job=told(
            "studies.fine_labels.granularity.photographs",
            ("images.datasets", "studies.fine_labels.granularity.represent"),
            lambda study, cell: study.measured(cell),
        ),
        features=lambda wildcards, input: (
            ["--features", *input.features] if input.features else []
        ),
        checkpoints=f"{RESULTS}/checkpoints/{{study}}/{{cell}}",
    shell:
        stage(
            "--images {input.images:q} {params.features:q} --checkpoints {params.checkpoints:q} --output {output:q}"
        )


rule aggregate_sweep:
    input:
        lambda wildcards: of_study("sweeps", wildcards.study, "parquet"),
    output:
        errors=table("{study}_errors"),
        summary=table("{study}_summary"),
    log:
        f"{RESULTS}/logs/aggregate/{{study}}.log",
    wildcard_constraints:
        study=either(FINE_LABELS.sweeps),
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        job=told_for_table("{study}_errors"),
        results=lambda wildcards: RESULTS,
    shell:
        stage(
            "--results {params.results:q} --errors {output.errors:q} --summary {output.summary:q}"
        )
