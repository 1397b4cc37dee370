# Imbalance and pruning, beside the chain.


# Every neuron against every feature, for the study `heatmap`.
rule alignment_map:
    input:
        of_study("encoders", "heatmap", "safetensors", trained_only=True)
        if "heatmap" in STUDIES
        else [],
    output:
        table("alignment_heatmap"),
    log:
        f"{RESULTS}/logs/aggregate/alignment_heatmap.log",
    resources:
        mem_mb=growing(4000),
        runtime=growing(20),
    params:
        job=told_for_table("alignment_heatmap"),
        results=lambda wildcards: RESULTS,
    shell:
        stage("--results {params.results:q} --output {output:q}")


# The reduced simulator of the study `paper` against the direct one.
rule cross_check:
    input:
        reduced=table("paper_grid"),
        direct=table("direct_grid"),
    output:
        table("cross_check"),
    log:
        f"{RESULTS}/logs/aggregate/cross_check.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        job=told_for_table("cross_check"),
    shell:
        stage(
            "--reduced {input.reduced:q} --direct {input.direct:q} --output {output:q}"
        )
