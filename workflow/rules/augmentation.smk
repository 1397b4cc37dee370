# What the two views of a pair make an encoder learn, one study at a time.

from rarefeat.studies.augmentation.kind import IMAGE_TABLES, SUPERVISE, TABLES

AUGMENTATION = PROJECT.sections["augmentation"]


rule supervise:
    output:
        f"{RESULTS}/supervised.safetensors",
    log:
        f"{RESULTS}/logs/augmentation/supervised.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(20),
    params:
        job=written(SUPERVISE.job("", AUGMENTATION, accepted=PROJECT.accepted)),
    shell:
        stage("--output {output:q}")


rule measure_augmentation:
    input:
        gathered(f"{{study}}.{TABLES[0]}"),
        supervised=lambda wildcards: (
            [f"{RESULTS}/supervised.safetensors"]
            if AUGMENTATION.like_supervised(wildcards.study)
            else []
        ),
    output:
        [table(f"{{study}}.{name}") for name in TABLES],
    log:
        f"{RESULTS}/logs/augmentation/{{study}}.log",
    wildcard_constraints:
        study=either(AUGMENTATION.studies),
    resources:
        mem_mb=growing(2000),
        runtime=growing(20),
    params:
        job=told_for_table(f"{{study}}.{TABLES[0]}"),
        results=lambda wildcards: RESULTS,
    shell:
        stage("--results {params.results:q} --output {output:q}")


# How often units fire, and what the features of the images keep and forget, under one kind of augmentation.
rule measure_image_views:
    input:
        gathered(f"{{study}}.{IMAGE_TABLES[0]}"),
    output:
        [table(f"{{study}}.{name}") for name in IMAGE_TABLES],
    log:
        f"{RESULTS}/logs/augmentation/{{study}}.log",
    wildcard_constraints:
        study=either(AUGMENTATION.images.studies()),
    resources:
        mem_mb=growing(4000),
        runtime=growing(20),
    params:
        job=told_for_table(f"{{study}}.{IMAGE_TABLES[0]}"),
        results=lambda wildcards: RESULTS,
    shell:
        stage("--results {params.results:q} --output {output:q}")
