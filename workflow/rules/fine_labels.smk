# Coarse and fine labels on hierarchical samples: networks by the scalar simulator, some of them also by the direct one.

from rarefeat.studies.fine_labels.config import DIRECT, SCALAR
from rarefeat.studies.fine_labels.kind import TABLES as FINE_LABELS_TABLES


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
