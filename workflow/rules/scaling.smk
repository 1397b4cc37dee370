# Sizes of the sets of Definition B.1 at initialisation. A checkpoint: they say which sizes are worth training.
checkpoint lucky_sets:
    input:
        code=code("lucky_sets"),
    output:
        f"{RESULTS}/tables/lucky_sets.parquet",
    log:
        f"{RESULTS}/logs/lucky_sets.log",
    benchmark:
        f"{RESULTS}/benchmarks/lucky_sets.tsv"
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(20),
    params:
        scaling=CONFIG.scaling.model_dump_json(by_alias=True),
    shell:
        "python -m rarefeat.lucky_sets --scaling {params.scaling:q} --output {output:q} 2>&1 | tee {log:q}"


# The trained sizes, and exponents in d against the bounds of Theorem 3.1.
rule aggregate_scaling:
    input:
        lucky_sets=f"{RESULTS}/tables/lucky_sets.parquet",
        encoders=scaling_encoders,
        code=code("scaling"),
    output:
        f"{RESULTS}/tables/scaling.parquet",
        f"{RESULTS}/tables/scaling_exponents.parquet",
    log:
        f"{RESULTS}/logs/aggregate/scaling.log",
    benchmark:
        f"{RESULTS}/benchmarks/aggregate/scaling.tsv"
    threads: 1
    resources:
        mem_mb=growing(4000),
        runtime=growing(20),
    params:
        scaling=CONFIG.scaling.model_dump_json(by_alias=True),
        encoders=f"{RESULTS}/encoders",
    shell:
        "python -m rarefeat.scaling --scaling {params.scaling:q} --lucky-sets {input.lucky_sets:q}"
        " --encoders {params.encoders:q} --output {output:q} 2>&1 | tee {log:q}"
