# Long-tailed images: the tables of one study.

from rarefeat.studies.long_tail.kind import TABLES as LONG_TAIL_TABLES


rule aggregate_images:
    input:
        probes=lambda wildcards: of_study("probes", wildcards.study, "parquet"),
        trajectories=lambda wildcards: of_study(
            "trajectories", wildcards.study, "parquet"
        ),
    output:
        [table(f"{{study}}.{name}") for name in LONG_TAIL_TABLES],
    log:
        f"{RESULTS}/logs/aggregate/{{study}}.log",
    wildcard_constraints:
        study=either(PROJECT.sections["long_tail"].studies),
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        job=told_for_table(f"{{study}}.{LONG_TAIL_TABLES[0]}"),
        results=lambda wildcards: RESULTS,
    shell:
        stage("--results {params.results:q} --output {output:q}")
