# The stages of the contrastive encoder: what every study of it runs through.


# Latent signals of what the law of the data depends on, for every sigma and every arm.
rule synthesise:
    output:
        f"{RESULTS}/latents/{{study}}/{{cell}}/seeds={{block}}.safetensors",
    log:
        f"{RESULTS}/logs/synthesise/{{study}}/{{cell}}/seeds={{block}}.log",
    wildcard_constraints:
        study=either(ENCODED),
    resources:
        mem_mb=growing(1500),
        runtime=growing(5),
    params:
        job=told(SYNTHESISE),
    shell:
        stage("--output {output:q}")


# One cell, with all its arms. The arms see the same tokens, so that one job makes these once. One thread, so that the bytes are the
# same everywhere on one machine; parallelism is over jobs.
rule pretrain:
    input:
        file_of(SYNTHESISE),
    output:
        encoders=f"{RESULTS}/encoders/{{study}}/{{cell}}/seeds={{block}}.safetensors",
        trajectories=f"{RESULTS}/trajectories/{{study}}/{{cell}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/pretrain/{{study}}/{{cell}}/seeds={{block}}.log",
    wildcard_constraints:
        study=either(ENCODED),
    resources:
        mem_mb=growing(1500),
        runtime=growing(20),
        gpu=gpus,
    params:
        job=told(PRETRAIN),
        results=lambda wildcards: RESULTS,
    shell:
        stage("--results {params.results:q} --output {output:q}")


# Evaluates the frozen encoders of one cell.
rule probe:
    input:
        file_of(SYNTHESISE),
        lambda wildcards: (
            file_of(PRETRAIN)(wildcards) if cell_of(wildcards).trained else []
        ),
    output:
        f"{RESULTS}/probes/{{study}}/{{cell}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/probe/{{study}}/{{cell}}/seeds={{block}}.log",
    wildcard_constraints:
        study=either(ENCODED),
    resources:
        mem_mb=growing(1500),
        runtime=growing(10),
        gpu=gpus,
    params:
        job=told(PROBE),
        results=lambda wildcards: RESULTS,
    shell:
        stage("--results {params.results:q} --output {output:q}")


# The grid of a study, or of one block of it, with its summary and trends.
rule aggregate_grid:
    input:
        gathered("{tabled}_grid"),
    output:
        table("{tabled}_grid"),
        table("{tabled}_summary"),
        table("{tabled}_trends"),
    log:
        f"{RESULTS}/logs/aggregate/{{tabled}}_grid.log",
    wildcard_constraints:
        tabled=either(GRIDS),
    resources:
        mem_mb=growing(4000),
        runtime=growing(20),
    params:
        job=told_for_table("{tabled}_grid"),
        results=lambda wildcards: RESULTS,
    shell:
        stage("--results {params.results:q} --output {output:q}")
