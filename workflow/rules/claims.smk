# What the neurons were at the milestones of training, replica by replica.
rule milestones:
    input:
        encoders=lambda wildcards: files_of(
            wildcards.study, "encoders", "safetensors", trained_only=True
        ),
        code=code("milestones"),
    output:
        f"{RESULTS}/tables/{{study}}_milestones.parquet",
    log:
        f"{RESULTS}/logs/claims/{{study}}_milestones.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(20),
    params:
        study=study_of,
        encoders=lambda wildcards: f"{RESULTS}/encoders/{wildcards.study}",
    shell:
        "python -m rarefeat.milestones --study {params.study:q} --encoders {params.encoders:q} --output {output:q}"
        " 2>&1 | tee {log:q}"


# How far the smallest neurons are those of the minority feature, at every pruning ratio and step.
rule overlap:
    input:
        encoders=lambda wildcards: files_of(
            wildcards.study, "encoders", "safetensors", trained_only=True
        ),
        code=code("overlap"),
    output:
        f"{RESULTS}/tables/{{study}}_overlap.parquet",
    log:
        f"{RESULTS}/logs/claims/{{study}}_overlap.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(20),
    params:
        study=study_of,
        encoders=lambda wildcards: f"{RESULTS}/encoders/{wildcards.study}",
    shell:
        "python -m rarefeat.overlap --study {params.study:q} --encoders {params.encoders:q} --output {output:q}"
        " 2>&1 | tee {log:q}"


# One step with and without the pruned set of Theorem 3.2.
rule one_step:
    input:
        encoders=lambda wildcards: files_of(
            wildcards.study, "encoders", "safetensors", trained_only=True
        ),
        code=code("one_step"),
    output:
        f"{RESULTS}/tables/{{study}}_one_step.parquet",
    log:
        f"{RESULTS}/logs/claims/{{study}}_one_step.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(20),
    params:
        study=study_of,
        encoders=lambda wildcards: f"{RESULTS}/encoders/{wildcards.study}",
    shell:
        "python -m rarefeat.one_step --study {params.study:q} --encoders {params.encoders:q} --output {output:q}"
        " 2>&1 | tee {log:q}"


# Every claim with its verdict.
rule claims:
    input:
        tables=[
            f"{RESULTS}/tables/{name}.parquet"
            for name in KNOWN["tables/claims.parquet"].tables
        ],
        code=code("claims.table"),
    output:
        f"{RESULTS}/tables/claims.parquet",
        f"{RESULTS}/claims.md",
    log:
        f"{RESULTS}/logs/claims/claims.log",
    resources:
        mem_mb=growing(4000),
        runtime=growing(20),
    params:
        claims=CONFIG.claims.model_dump_json(by_alias=True),
        paper=STUDIES["paper"].model_dump_json(by_alias=True),
        augmentation=CONFIG.augmentation.model_dump_json(by_alias=True),
        tables=lambda wildcards, output: os.path.dirname(output[0]),
    shell:
        "python -m rarefeat.claims.table --claims {params.claims:q} --paper {params.paper:q} --augmentation {params.augmentation:q} --tables {params.tables:q}"
        " --output {output:q} 2>&1 | tee {log:q}"


# The claims of one part of the theory, row by row.
rule plot_claims:
    input:
        table=f"{RESULTS}/tables/claims.parquet",
        code=code("claims.figure"),
    output:
        report(
            f"{RESULTS}/figures/claims_{{group}}.png",
            caption="../report/claims_figure.rst",
            category="Claims",
            labels=lambda wildcards: {
                "part": wildcards.group.replace("_", " "),
                "kind": "figure",
            },
        ),
        f"{RESULTS}/figures/claims_{{group}}.pdf",
    log:
        f"{RESULTS}/logs/plot/claims_{{group}}.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    shell:
        "python -m rarefeat.claims.figure {wildcards.group} --table {input.table:q} --output {output:q} 2>&1 | tee {log:q}"


# Minority alignment over training, and what magnitude pruning changes.
rule map_claims:
    input:
        tables=lambda wildcards: [
            f"{RESULTS}/tables/{name}_{CLAIMS_MAPS[wildcards.map][0]}.parquet"
            for name in CLAIMS_MAPS[wildcards.map][1]
        ],
        code=code("claims.maps"),
    output:
        report(
            f"{RESULTS}/figures/claims_map_{{map}}.png",
            caption="../report/claims_map.rst",
            category="Claims",
            labels={"part": "{map}", "kind": "map"},
        ),
        f"{RESULTS}/figures/claims_map_{{map}}.pdf",
    log:
        f"{RESULTS}/logs/plot/claims_map_{{map}}.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        claims=CONFIG.claims.model_dump_json(by_alias=True),
    shell:
        "python -m rarefeat.claims.maps {wildcards.map} --claims {params.claims:q} --tables {input.tables:q} --output {output:q}"
        " 2>&1 | tee {log:q}"


rule all_claims:
    input:
        [f"{RESULTS}/{path}" for path, product in KNOWN.items() if product.claims],
        f"{RESULTS}/pages/claims.html",
