# Exact results: each result is a study with a stage of its own name; a job for each cell and block of seeds.

EXACT = PROJECT.sections["exact_results"].studies()


# One cell of one result.
rule exact_result:
    output:
        f"{RESULTS}/probes/{{study}}/{{cell}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/exact_results/{{study}}/{{cell}}/seeds={{block}}.log",
    wildcard_constraints:
        study=either(EXACT),
    resources:
        mem_mb=growing(2000),
        runtime=growing(30),
    params:
        job=lambda wildcards: told(
            f"studies.exact_results.{wildcards.study}",
            (),
            lambda study, cell: {"parameters": study.parameters(cell)},
        )(wildcards),
    shell:
        stage("--output {output:q}")


# The table of a result.
rule aggregate_exact_result:
    input:
        lambda wildcards: of_study("probes", wildcards.exact, "parquet"),
    output:
        table("{exact}"),
    log:
        f"{RESULTS}/logs/aggregate/{{exact}}.log",
    wildcard_constraints:
        exact=either(EXACT),
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        job=told_for_table("{exact}"),
        results=lambda wildcards: RESULTS,
    shell:
        stage("--results {params.results:q} --output {output:q}")


# Means over seeds of all of them, beside what is stated and printed.
rule exact_results_summary:
    input:
        [table(name) for name in EXACT],
    output:
        table("exact_results"),
    log:
        f"{RESULTS}/logs/aggregate/exact_results.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        job=told_for_table("exact_results"),
    shell:
        stage("--tables {input:q} --output {output:q}")


# What the other experiments would cost.
rule count_out_of_reach:
    output:
        table("out_of_reach"),
    log:
        f"{RESULTS}/logs/aggregate/out_of_reach.log",
    resources:
        mem_mb=growing(1000),
        runtime=growing(10),
    params:
        job=told_for_table("out_of_reach"),
    shell:
        stage("--output {output:q}")
