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


# The trained sizes.
rule trained_sizes:
    input:
        lambda wildcards: [
            f"{RESULTS}/{path}"
            for path in trained_encoders(
                PROJECT.sections["scaling"],
                checkpoints.lucky_sets.get().output[0],
                PROJECT.identities(["lucky_sets"]),
            )
        ],
        lucky_sets=table("lucky_sets"),
    output:
        table("scaling"),
    log:
        f"{RESULTS}/logs/trained_sizes/scaling.log",
    resources:
        mem_mb=growing(4000),
        runtime=growing(20),
    params:
        job=told_for_table("scaling"),
        results=lambda wildcards: RESULTS,
    shell:
        stage(
            "--tables {input.lucky_sets:q} --results {params.results:q} --output {output:q}"
        )
