# Theorem 3.1 across sizes.

from rarefeat.studies.scaling.kind import trained_encoders


# Sizes of the sets of Definition B.1 at initialisation. A checkpoint: they say which sizes are worth training.
checkpoint lucky_sets:
    output:
        table("lucky_sets"),
    log:
        f"{RESULTS}/logs/lucky_sets.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(20),
    params:
        job=told_for_table("lucky_sets"),
    shell:
        stage("--output {output:q}")


# The trained sizes, and exponents in d against the bounds of Theorem 3.1.
rule aggregate_scaling:
    input:
        lambda wildcards: [
            f"{RESULTS}/{path}"
            for path in trained_encoders(
                PROJECT.sections["scaling"], checkpoints.lucky_sets.get().output[0]
            )
        ],
        lucky_sets=table("lucky_sets"),
    output:
        replicas=table("scaling"),
        exponents=table("scaling_exponents"),
    log:
        f"{RESULTS}/logs/aggregate/scaling.log",
    resources:
        mem_mb=growing(4000),
        runtime=growing(20),
    params:
        job=told_for_table("scaling"),
        results=lambda wildcards: RESULTS,
    shell:
        stage(
            "--lucky-sets {input.lucky_sets:q} --results {params.results:q} --replicas {output.replicas:q} "
            "--exponents {output.exponents:q}"
        )
