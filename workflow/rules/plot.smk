# One figure from its tables.
rule plot:
    input:
        tables=lambda wildcards: [
            f"{RESULTS}/tables/{table}.parquet"
            for table in FIGURES[wildcards.figure].tables
        ],
        code=code("plot"),
    output:
        report(
            f"{RESULTS}/figures/{{figure}}.png",
            caption="../report/figure.rst",
            category="Figures",
            labels=lambda wildcards: {
                "study": "imbalance and pruning",
                "figure": wildcards.figure.replace("_", " "),
            },
        ),
        f"{RESULTS}/figures/{{figure}}.pdf",
    log:
        f"{RESULTS}/logs/plot/{{figure}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/plot/{{figure}}.tsv"
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        block=block_of,
    shell:
        "python -m rarefeat.plot {wildcards.figure} --tables {input.tables:q} {params.block} --output {output:q}"
        " 2>&1 | tee {log:q}"
