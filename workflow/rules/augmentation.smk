# What the two views of a pair make an encoder learn: one study at a time, then all of them in one table.


rule supervise:
    input:
        code=code("supervise"),
    output:
        f"{RESULTS}/augmentation/supervised.safetensors",
    log:
        f"{RESULTS}/logs/augmentation/supervised.log",
    benchmark:
        f"{RESULTS}/benchmarks/augmentation/supervised.tsv"
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(20),
    params:
        study=CONFIG.augmentation.studies[
            CONFIG.augmentation.supervised.study
        ].model_dump_json(by_alias=True),
        supervised=CONFIG.augmentation.supervised.model_dump_json(),
    shell:
        "python -m rarefeat.supervise --study {params.study:q} --supervised {params.supervised:q} --output {output:q}"
        " 2>&1 | tee {log:q}"


rule measure_augmentation:
    input:
        encoders=lambda wildcards: files_of(
            wildcards.study, "encoders", "safetensors", trained_only=True
        ),
        supervised=supervised_of,
        code=code("augmentation"),
    output:
        expand(
            f"{RESULTS}/augmentation/{{{{study}}}}/{{table}}.parquet",
            table=AUGMENTATION_TABLES,
        ),
    log:
        f"{RESULTS}/logs/augmentation/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/augmentation/{{study}}.tsv"
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(20),
    params:
        study=study_of,
        encoders=lambda wildcards: f"{RESULTS}/encoders/{wildcards.study}",
        labels=CONFIG.augmentation.labels,
        tests=CONFIG.augmentation.tests,
        gradients=CONFIG.augmentation.gradients,
        supervised=lambda wildcards: [
            word
            for path in supervised_of(wildcards)
            for word in ("--supervised", path)
        ],
        folder=lambda wildcards, output: os.path.dirname(output[0]),
    shell:
        "python -m rarefeat.augmentation measure --study {params.study:q} --encoders {params.encoders:q}"
        " --labels {params.labels} --tests {params.tests} --gradients {params.gradients} {params.supervised:q} --output {params.folder:q} 2>&1 | tee {log:q}"


rule aggregate_augmentation:
    input:
        tables=expand(
            f"{RESULTS}/augmentation/{{study}}/{{table}}.parquet",
            study=CONFIG.augmentation.studies,
            table=AUGMENTATION_TABLES,
        ),
        code=code("augmentation"),
    output:
        expand(f"{RESULTS}/tables/{{table}}.parquet", table=AUGMENTATION_TABLES),
    log:
        f"{RESULTS}/logs/augmentation/tables.log",
    benchmark:
        f"{RESULTS}/benchmarks/augmentation/tables.tsv"
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        augmentation=CONFIG.augmentation.model_dump_json(by_alias=True),
        folder=lambda wildcards: f"{RESULTS}/augmentation",
        tables=lambda wildcards, output: os.path.dirname(output[0]),
    shell:
        "python -m rarefeat.augmentation gather --augmentation {params.augmentation:q} --folder {params.folder:q}"
        " --output {params.tables:q} 2>&1 | tee {log:q}"


rule plot_augmentation:
    input:
        tables=expand(f"{RESULTS}/tables/{{table}}.parquet", table=AUGMENTATION_TABLES),
        code=code("augmentation_figure"),
    output:
        report(
            f"{RESULTS}/figures/{{augmentation_figure}}.png",
            caption="../report/augmentation.rst",
            category="Figures",
            labels=lambda wildcards: {
                "study": "augmentation",
                "figure": wildcards.augmentation_figure.removeprefix("augmentation_"),
            },
        ),
        f"{RESULTS}/figures/{{augmentation_figure}}.pdf",
    log:
        f"{RESULTS}/logs/plot/{{augmentation_figure}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/plot/{{augmentation_figure}}.tsv"
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    shell:
        "python -m rarefeat.augmentation_figure {wildcards.augmentation_figure} --tables {input.tables:q} --output {output:q}"
        " 2>&1 | tee {log:q}"


# How often units fire, and what the features of the images keep and forget, under one kind of augmentation.
rule measure_image_views:
    input:
        images=f"{RESULTS}/images/{{image_study}}/data.safetensors",
        splits=lambda wildcards: [
            f"{RESULTS}/images/{wildcards.image_study}/splits/rho=1/long_tailed/seeds={block}.safetensors"
            for block in IMAGE_VIEWS[wildcards.image_study].blocks()
        ],
        encoders=lambda wildcards: image_cells(
            "encoders",
            {wildcards.image_study: IMAGE_VIEWS[wildcards.image_study]},
            "safetensors",
        ),
        code=code("images.representations"),
    output:
        expand(
            f"{RESULTS}/augmentation/{{{{image_study}}}}/{{table}}.parquet",
            table=IMAGE_VIEWS_TABLES,
        ),
    log:
        f"{RESULTS}/logs/augmentation/{{image_study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/augmentation/{{image_study}}.tsv"
    threads: 1
    resources:
        mem_mb=growing(4000),
        runtime=growing(20),
    params:
        study=lambda wildcards: IMAGE_VIEWS[wildcards.image_study].model_dump_json(),
        draws=image_draws,
        folder=lambda wildcards, output: os.path.dirname(output[0]),
    shell:
        "python -m rarefeat.images.representations measure --study {params.study:q} --draws {params.draws} --images {input.images:q}"
        " --splits {input.splits:q} --encoders {input.encoders:q} --output {params.folder:q} 2>&1 | tee {log:q}"


rule aggregate_image_views:
    input:
        tables=expand(
            f"{RESULTS}/augmentation/{{image_study}}/{{table}}.parquet",
            image_study=IMAGE_VIEWS,
            table=IMAGE_VIEWS_TABLES,
        ),
        code=code("images.representations"),
    output:
        expand(f"{RESULTS}/tables/{{table}}.parquet", table=IMAGE_VIEWS_TABLES),
    log:
        f"{RESULTS}/logs/augmentation/image_tables.log",
    benchmark:
        f"{RESULTS}/benchmarks/augmentation/image_tables.tsv"
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        studies=json.dumps(
            {
                name: study.model_dump(mode="json")
                for name, study in IMAGE_VIEWS.items()
            }
        ),
        folder=lambda wildcards: f"{RESULTS}/augmentation",
        tables=lambda wildcards, output: os.path.dirname(output[0]),
    shell:
        "python -m rarefeat.images.representations gather --studies {params.studies:q} --folder {params.folder:q}"
        " --output {params.tables:q} 2>&1 | tee {log:q}"


rule plot_image_views:
    input:
        tables=expand(f"{RESULTS}/tables/{{table}}.parquet", table=IMAGE_VIEWS_TABLES),
        code=code("images.representations_figure"),
    output:
        report(
            f"{RESULTS}/figures/augmentation_images.png",
            caption="../report/image_views.rst",
            category="Figures",
            labels={"study": "augmentation", "figure": "images"},
        ),
        f"{RESULTS}/figures/augmentation_images.pdf",
    log:
        f"{RESULTS}/logs/plot/augmentation_images.log",
    benchmark:
        f"{RESULTS}/benchmarks/plot/augmentation_images.tsv"
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        kinds=list(IMAGE_VIEWS),
    shell:
        "python -m rarefeat.images.representations_figure --kinds {params.kinds} --tables {input.tables:q} --output {output:q} 2>&1 | tee {log:q}"
