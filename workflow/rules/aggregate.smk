# The grid of a study with its summary and trends.
rule aggregate_grid:
    input:
        points=lambda wildcards: files_of(wildcards.study, "probes", "parquet"),
        code=code("aggregate"),
    output:
        f"{RESULTS}/tables/{{study}}_grid.parquet",
        f"{RESULTS}/tables/{{study}}_summary.parquet",
        f"{RESULTS}/tables/{{study}}_trends.parquet",
    log:
        f"{RESULTS}/logs/aggregate/{{study}}_grid.log",
    benchmark:
        f"{RESULTS}/benchmarks/aggregate/{{study}}_grid.tsv"
    threads: 1
    resources:
        mem_mb=growing(4000),
        runtime=growing(20),
    params:
        study=study_of,
        points=lambda wildcards: f"{RESULTS}/probes/{wildcards.study}",
    shell:
        "python -m rarefeat.aggregate grid --study {params.study:q} --points {params.points:q} --output {output:q}"
        " 2>&1 | tee {log:q}"


# What the neurons did during training.
rule aggregate_trajectories:
    input:
        points=lambda wildcards: files_of(
            wildcards.study, "trajectories", "parquet", trained_only=True
        ),
        code=code("aggregate"),
    output:
        f"{RESULTS}/tables/{{study}}_trajectories.parquet",
    log:
        f"{RESULTS}/logs/aggregate/{{study}}_trajectories.log",
    benchmark:
        f"{RESULTS}/benchmarks/aggregate/{{study}}_trajectories.tsv"
    threads: 1
    resources:
        mem_mb=growing(4000),
        runtime=growing(20),
    params:
        study=study_of,
        points=lambda wildcards: f"{RESULTS}/trajectories/{wildcards.study}",
    shell:
        "python -m rarefeat.aggregate trajectories --study {params.study:q} --points {params.points:q} --output {output:q}"
        " 2>&1 | tee {log:q}"


# Every neuron against every feature, for the study `heatmap`.
rule aggregate_heatmap:
    input:
        points=files_of("heatmap", "encoders", "safetensors", trained_only=True),
        code=code("alignment_map"),
    output:
        f"{RESULTS}/tables/alignment_heatmap.parquet",
    log:
        f"{RESULTS}/logs/aggregate/alignment_heatmap.log",
    benchmark:
        f"{RESULTS}/benchmarks/aggregate/alignment_heatmap.tsv"
    threads: 1
    resources:
        mem_mb=growing(4000),
        runtime=growing(20),
    params:
        study=lambda wildcards: STUDIES["heatmap"].model_dump_json(by_alias=True),
        encoders=lambda wildcards: f"{RESULTS}/encoders/heatmap",
        draws=STUDIES["heatmap"].draws,
    shell:
        "python -m rarefeat.alignment_map --study {params.study:q} --encoders {params.encoders:q}"
        " --draws {params.draws:q} --output {output:q} 2>&1 | tee {log:q}"


# The reduced simulator of the study `paper` against the direct one.
rule aggregate_cross_check:
    input:
        reduced=f"{RESULTS}/tables/paper_grid.parquet",
        direct=f"{RESULTS}/tables/direct_grid.parquet",
        code=code("cross_check"),
    output:
        f"{RESULTS}/tables/cross_check.parquet",
    log:
        f"{RESULTS}/logs/aggregate/cross_check.log",
    benchmark:
        f"{RESULTS}/benchmarks/aggregate/cross_check.tsv"
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    shell:
        "python -m rarefeat.cross_check --reduced {input.reduced:q} --direct {input.direct:q} --output {output:q}"
        " 2>&1 | tee {log:q}"


# Commit, machine and date: made when a product is, and read by nothing.
rule provenance:
    input:
        products=PRODUCTS,
    output:
        f"{RESULTS}/provenance.json",
    log:
        f"{RESULTS}/logs/provenance.log",
    threads: 1
    resources:
        mem_mb=growing(1000),
        runtime=growing(5),
    params:
        results=lambda wildcards, output: os.path.dirname(output[0]),
    shell:
        "python -m rarefeat.provenance record {params.results:q} 2>&1 | tee {log:q}"


# The measured summary, for people.
rule summarise:
    input:
        tables=[
            f"{RESULTS}/tables/{table}.parquet"
            for table in [
                "paper_grid",
                "paper_trends",
                "paper_trajectories",
                "direct_trends",
                "cross_check",
                "scaling_exponents",
                "neighbour_trends",
                "neighbour_trajectories",
                "without_bias_trends",
                "without_bias_trajectories",
                "alignment_heatmap",
            ]
        ],
        code=code("summarise"),
    output:
        f"{RESULTS}/summary.md",
    log:
        f"{RESULTS}/logs/summarise.log",
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    shell:
        "python -m rarefeat.summarise {input.tables:q} --output {output:q} 2>&1 | tee {log:q}"
