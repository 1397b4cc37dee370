# The stages of every study of images: data set -> splits -> pretraining -> probes.


# The images of a data set as one file of tensors.
rule image_data:
    output:
        f"{RESULTS}/images/{{study}}.safetensors",
    log:
        f"{RESULTS}/logs/images/{{study}}.log",
    wildcard_constraints:
        study=either(WITH_IMAGES),
    resources:
        mem_mb=growing(8000),
        runtime=growing(120),
    params:
        job=told_of_images(IMAGE_DATA),
    shell:
        stage("--output {output:q}")


# What is pretrained on, drawn or read: every seed of a block at one rho. All before any training, which a bad rho must not follow.
rule image_splits:
    input:
        file_of(IMAGE_DATA),
    output:
        f"{RESULTS}/splits/{{study}}/{{cell}}/seeds={{block}}.safetensors",
    log:
        f"{RESULTS}/logs/splits/{{study}}/{{cell}}/seeds={{block}}.log",
    wildcard_constraints:
        study=either(PICTURED),
    priority: 10
    resources:
        mem_mb=growing(4000),
        runtime=growing(10),
    params:
        job=told_of_images(IMAGE_SPLITS),
        results=lambda wildcards: RESULTS,
    shell:
        stage("--results {params.results:q} --output {output:q}")


# One arm at one rho and split, the seeds of a block one after the other. Checkpoints are no output, so that they outlive a failure.
rule pretrain_images:
    input:
        file_of(IMAGE_DATA),
        file_of(IMAGE_SPLITS),
    output:
        encoders=f"{RESULTS}/encoders/{{study}}/{{cell}}/seeds={{block}}.safetensors",
        trajectories=f"{RESULTS}/trajectories/{{study}}/{{cell}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/pretrain/{{study}}/{{cell}}/seeds={{block}}.log",
    wildcard_constraints:
        study=either(PICTURED),
    threads: threads_of
    resources:
        mem_mb=growing(8000),
        runtime=lambda wildcards, attempt: attempt * (1440 if gpus(wildcards) else 60),
        gpu=gpus,
    params:
        job=told_of_images(IMAGE_PRETRAIN),
        results=lambda wildcards: RESULTS,
        checkpoints=f"{RESULTS}/checkpoints/{{study}}/{{cell}}",
    shell:
        stage(
            "--results {params.results:q} --checkpoints {params.checkpoints:q} --output {output:q}"
        )


# Linear, few-shot and nearest-neighbour probes of the frozen encoders. Before the next training, so that what is finished can be kept.
rule probe_images:
    input:
        file_of(IMAGE_DATA),
        file_of(IMAGE_SPLITS),
        file_of(IMAGE_PRETRAIN),
    output:
        f"{RESULTS}/probes/{{study}}/{{cell}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/probe/{{study}}/{{cell}}/seeds={{block}}.log",
    wildcard_constraints:
        study=either(PICTURED),
    priority: 5
    threads: threads_of
    resources:
        mem_mb=growing(8000),
        runtime=growing(60),
        gpu=gpus,
    params:
        job=told_of_images(IMAGE_PROBE),
        results=lambda wildcards: RESULTS,
    shell:
        stage("--results {params.results:q} --output {output:q}")
