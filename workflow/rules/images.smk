# Long-tailed images: data set -> splits -> pretraining -> probes -> Table 2.


# The images of a data set as one file of tensors.
rule image_data:
    input:
        code=code("images.datasets"),
    output:
        f"{RESULTS}/images/{{image_study}}/data.safetensors",
    log:
        f"{RESULTS}/logs/images/{{image_study}}/data.log",
    benchmark:
        f"{RESULTS}/benchmarks/images/{{image_study}}/data.tsv"
    threads: 1
    resources:
        mem_mb=growing(8000),
        runtime=growing(120),
    params:
        data=of_images("data"),
    shell:
        "python -m rarefeat.images.datasets --data {params.data:q} --output {output:q} 2>&1 | tee {log:q}"


# What is pretrained on, drawn or read: every seed of a block at one rho. All before any training, which a bad rho must not follow.
rule image_splits:
    input:
        images=f"{RESULTS}/images/{{image_study}}/data.safetensors",
        code=code("images.splits"),
    output:
        f"{RESULTS}/images/{{image_study}}/splits/rho={{rho}}/{{split}}/seeds={{block}}.safetensors",
    log:
        f"{RESULTS}/logs/images/{{image_study}}/splits/rho={{rho}}/{{split}}/seeds={{block}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/images/{{image_study}}/splits/rho={{rho}}/{{split}}/seeds={{block}}.tsv"
    priority: 10
    threads: 1
    resources:
        mem_mb=growing(4000),
        runtime=growing(10),
    params:
        draws=image_draws,
        data=of_images("data"),
        few_shot=lambda wildcards: IMAGE_STUDIES[wildcards.image_study].probe.few_shot,
    shell:
        "python -m rarefeat.images.splits --study {params.draws} --data {params.data:q} --images {input.images:q}"
        " --rho {wildcards.rho} --split {wildcards.split} --few-shot {params.few_shot} --seeds {wildcards.block}"
        " --output {output:q} 2>&1 | tee {log:q}"


# One arm at one rho and split, the seeds of a block one after the other. Checkpoints are no output, so that they outlive a failure.
rule pretrain_images:
    input:
        images=f"{RESULTS}/images/{{image_study}}/data.safetensors",
        splits=f"{RESULTS}/images/{{image_study}}/splits/rho={{rho}}/{{split}}/seeds={{block}}.safetensors",
        code=code("images.pretrain"),
    output:
        encoders=f"{RESULTS}/images/{{image_study}}/encoders/rho={{rho}}/{{split}}/{{image_arm}}/seeds={{block}}.safetensors",
        trajectories=f"{RESULTS}/images/{{image_study}}/trajectories/rho={{rho}}/{{split}}/{{image_arm}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/images/{{image_study}}/pretrain/rho={{rho}}/{{split}}/{{image_arm}}/seeds={{block}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/images/{{image_study}}/pretrain/rho={{rho}}/{{split}}/{{image_arm}}/seeds={{block}}.tsv"
    threads: image_threads
    resources:
        mem_mb=growing(8000),
        runtime=lambda wildcards, attempt: attempt * (1440 if gpus(wildcards) else 60),
        gpu=gpus,
    params:
        draws=image_draws,
        arm=image_arm,
        network=of_images("network"),
        augmentation=of_images("augmentation"),
        training=of_images("training"),
        checkpoints=lambda wildcards: f"{RESULTS}/images/{wildcards.image_study}/checkpoints/rho={wildcards.rho}/{wildcards.split}/{wildcards.image_arm}",
    shell:
        "python -m rarefeat.images.pretrain --study {params.draws} --images {input.images:q} --splits {input.splits:q}"
        " --arm {params.arm:q} --network {params.network:q} --augmentation {params.augmentation:q}"
        " --training {params.training:q} --seeds {wildcards.block} --checkpoints {params.checkpoints:q}"
        " --encoders {output.encoders:q} --trajectories {output.trajectories:q} 2>&1 | tee {log:q}"


# Linear, few-shot and nearest-neighbour probes of the frozen encoders.
rule probe_images:
    input:
        images=f"{RESULTS}/images/{{image_study}}/data.safetensors",
        splits=f"{RESULTS}/images/{{image_study}}/splits/rho={{rho}}/{{split}}/seeds={{block}}.safetensors",
        encoders=f"{RESULTS}/images/{{image_study}}/encoders/rho={{rho}}/{{split}}/{{image_arm}}/seeds={{block}}.safetensors",
        code=code("images.probe"),
    output:
        f"{RESULTS}/images/{{image_study}}/probes/rho={{rho}}/{{split}}/{{image_arm}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/images/{{image_study}}/probes/rho={{rho}}/{{split}}/{{image_arm}}/seeds={{block}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/images/{{image_study}}/probes/rho={{rho}}/{{split}}/{{image_arm}}/seeds={{block}}.tsv"
    threads: image_threads
    resources:
        mem_mb=growing(8000),
        runtime=growing(60),
        gpu=gpus,
    params:
        draws=image_draws,
        arm=image_arm,
        network=of_images("network"),
        probe=of_images("probe"),
        # Not {threads}, which --cores may cap: the number of threads is in the last digits.
        threads=image_threads,
    shell:
        "python -m rarefeat.images.probe --study {params.draws} --images {input.images:q} --splits {input.splits:q}"
        " --encoders {input.encoders:q} --arm {params.arm:q} --network {params.network:q} --probe {params.probe:q}"
        " --seeds {wildcards.block} --threads {params.threads} --output {output:q} 2>&1 | tee {log:q}"


# Every image study in one table, and Table 2.
rule aggregate_images:
    input:
        probes=image_cells("probes", CONFIG.images),
        trajectories=image_cells("trajectories", CONFIG.images),
        code=code("images.table"),
    output:
        f"{RESULTS}/tables/longtail.parquet",
        f"{RESULTS}/tables/longtail_classes.parquet",
        f"{RESULTS}/tables/longtail_summary.parquet",
        f"{RESULTS}/tables/longtail_trajectories.parquet",
        f"{RESULTS}/table2.md",
    log:
        f"{RESULTS}/logs/images/table.log",
    benchmark:
        f"{RESULTS}/benchmarks/images/table.tsv"
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        studies=json.dumps(
            {
                name: study.model_dump(mode="json")
                for name, study in CONFIG.images.items()
            }
        ),
        folder=lambda wildcards: f"{RESULTS}/images",
    shell:
        "python -m rarefeat.images.table --studies {params.studies:q} --folder {params.folder:q} --output {output:q}"
        " 2>&1 | tee {log:q}"


# Accuracy and Delta_20 against rho, and how training went.
rule plot_images:
    input:
        summary=f"{RESULTS}/tables/longtail_summary.parquet",
        trajectories=f"{RESULTS}/tables/longtail_trajectories.parquet",
        code=code("images.figure"),
    output:
        report(
            f"{RESULTS}/figures/longtail_{{image_study}}.png",
            caption="../report/longtail.rst",
            category="Figures",
            labels={"study": "long-tailed images", "figure": "{image_study}"},
        ),
        f"{RESULTS}/figures/longtail_{{image_study}}.pdf",
    log:
        f"{RESULTS}/logs/plot/longtail_{{image_study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/plot/longtail_{{image_study}}.tsv"
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    shell:
        "python -m rarefeat.images.figure {wildcards.image_study} --summary {input.summary:q}"
        " --trajectories {input.trajectories:q} --output {output:q} 2>&1 | tee {log:q}"


rule all_images:
    input:
        f"{RESULTS}/table2.md",
        expand(
            f"{RESULTS}/figures/longtail_{{image_study}}.png",
            image_study=CONFIG.images,
        ),
