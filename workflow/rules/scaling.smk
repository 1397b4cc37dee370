# Theorem 3.1 across sizes.

from rarefeat.studies.scaling.declaration import encoders_of_large_sets


# Sizes of the sets of Definition B.1 at initialisation. A checkpoint, as they decide which sizes
# are trained.
checkpoint lucky_sets:
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
        "rarefeat run studies.scaling.lucky_sets:lucky_sets lucky_sets --output {output:q} > {log:q} 2>&1"


def encoders_of_trained_sizes(wildcards):
    """Return the encoders of the sizes that are trained."""
    lucky_sets = checkpoints.lucky_sets.get().output[0]
    paths = as_workflow_error(encoders_of_large_sets, PROJECT.sections["scaling"], lucky_sets)
    return [f"<results>/{path}" for path in paths]


rule trained_sizes:
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
        "rarefeat run studies.scaling.aggregate:trained_sizes scaling --output {output:q} > {log:q} 2>&1"
