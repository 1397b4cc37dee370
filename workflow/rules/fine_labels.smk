# Labels of photographs: a network for each replica, one after the other, with checkpoints.

from rarefeat.studies.fine_labels.kind import REPRESENT, SWEEP_PHOTOGRAPHS

FINE_LABELS = PROJECT.sections["fine_labels"]


# The features that clusters are made of. Checkpoints, here and below, are no output, so that they outlive a failure.
rule represent_photographs:
    input:
        file_of(IMAGE_DATA),
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
        job=told_of_images(REPRESENT),
        results=lambda wildcards: RESULTS,
        checkpoints=f"{RESULTS}/checkpoints/{{study}}",
    shell:
        stage(
            "--results {params.results:q} --checkpoints {params.checkpoints:q} --output {output:q}"
        )


# The same sweep on photographs: the replicas of a block one after the other.
rule sweep_photographs:
    input:
        file_of(IMAGE_DATA),
        # Where a cell has clusters of them.
        lambda wildcards: [file_of(REPRESENT)(wildcards)]
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
        job=told_of_images(SWEEP_PHOTOGRAPHS),
        results=lambda wildcards: RESULTS,
        checkpoints=f"{RESULTS}/checkpoints/{{study}}/{{cell}}",
    shell:
        stage(
            "--results {params.results:q} --checkpoints {params.checkpoints:q} --output {output:q}"
        )
