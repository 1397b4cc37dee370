# What the two views of a pair make an encoder learn: one study at a time, then all of them in one table.


rule measure_augmentation:
    input:
        encoders=lambda wildcards: files_of(
            wildcards.study, "encoders", "safetensors", trained_only=True
        ),
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
        mem_mb=2000,
        runtime=20,
    params:
        study=study_of,
        encoders=lambda wildcards: f"{RESULTS}/encoders/{wildcards.study}",
        labels=CONFIG.augmentation.labels,
        tests=CONFIG.augmentation.tests,
        folder=lambda wildcards, output: os.path.dirname(output[0]),
    shell:
        "python -m rarefeat.augmentation measure --study {params.study:q} --encoders {params.encoders:q}"
        " --labels {params.labels} --tests {params.tests} --output {params.folder:q} 2>&1 | tee {log:q}"


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
        mem_mb=2000,
        runtime=10,
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
        mem_mb=2000,
        runtime=10,
    shell:
        "python -m rarefeat.augmentation_figure {wildcards.augmentation_figure} --tables {input.tables:q} --output {output:q}"
        " 2>&1 | tee {log:q}"
