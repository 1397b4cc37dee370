"""Theorem 3.1 across sizes."""


checkpoint lucky_sets:
    """Count the sets of Definition B.1 at the start: they decide which sizes are trained."""
    output:
        "<results>/tables/lucky_sets.parquet",
    log:
        "<results>/logs/lucky_sets.log",
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(20),
    params:
        *told(lambda wildcards: PROJECT.table_job("lucky_sets")),
    shell:
        "rarefeat run studies.scaling.sets:lucky_sets lucky_sets --output {output:q} > {log:q} 2>&1"


rule trained_sizes:
    """Measure the encoders of the sizes that are trained."""
    input:
        encoders=encoders_of_trained_sizes,
        lucky_sets="<results>/tables/lucky_sets.parquet",
    output:
        "<results>/tables/scaling.parquet",
    log:
        "<results>/logs/trained_sizes.log",
    resources:
        mem_mb=scale_with_attempt(4000),
        runtime=scale_with_attempt(20),
    params:
        *told(lambda wildcards: PROJECT.table_job("scaling")),
    shell:
        "rarefeat run studies.scaling.sets:trained_sizes scaling --output {output:q} > {log:q} 2>&1"
