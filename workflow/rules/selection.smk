# Which neurons to prune: each cell and block of a sweep in one job; then its tables, the steps, and the law against them.

SELECTION = PROJECT.sections["selection"]


# Every arm of a cell, trained on the same tokens and measured.
rule measure_selection:
    output:
        numbers=f"{RESULTS}/probes/{{study}}/{{cell}}/seeds={{block}}.parquet",
        scores=f"{RESULTS}/scores/{{study}}/{{cell}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/selection/{{study}}/{{cell}}/seeds={{block}}.log",
    wildcard_constraints:
        study=either(SELECTION.sweeps),
    resources:
        mem_mb=growing(2000),
        runtime=growing(60),
    params:
        job=told("studies.selection.measure", (), lambda study, cell: study.trained()),
    shell:
        stage("--numbers {output.numbers:q} --scores {output.scores:q}")


# The numbers of a sweep, and the judgements of its scores.
rule aggregate_selection:
    input:
        lambda wildcards: of_study("probes", wildcards.study, "parquet"),
        lambda wildcards: of_study("scores", wildcards.study, "parquet"),
    output:
        numbers=table("{study}_selection"),
        scores=table("{study}_selection_scores"),
    log:
        f"{RESULTS}/logs/aggregate/{{study}}_selection.log",
    wildcard_constraints:
        study=either(SELECTION.sweeps),
    resources:
        mem_mb=growing(4000),
        runtime=growing(20),
    params:
        job=told_for_table("{study}_selection"),
        results=lambda wildcards: RESULTS,
    shell:
        stage("--results {params.results:q} --output {output:q}")


# Where the rare feature's step lies, by sweep, point and arm.
if SELECTION.of_role("help", "law_fit", "law_test"):

    rule steps_of_selection:
        input:
            [table(name) for name in PROJECT.tables["selection_steps"].tables],
        output:
            table("selection_steps"),
        log:
            f"{RESULTS}/logs/aggregate/selection_steps.log",
        resources:
            mem_mb=growing(2000),
            runtime=growing(20),
        params:
            job=told_for_table("selection_steps"),
        shell:
            stage("--tables {input:q} --output {output:q}")


# The law for the step, fitted on some regimes and held against others.
if SELECTION.of_role("law_fit", "law_test"):

    rule test_law_of_selection:
        input:
            [table(name) for name in PROJECT.tables["selection_law"].tables],
        output:
            fate=table("selection_fate"),
            law=table("selection_law"),
        log:
            f"{RESULTS}/logs/aggregate/selection_law.log",
        resources:
            mem_mb=growing(4000),
            runtime=growing(20),
        params:
            job=told_for_table("selection_law"),
        shell:
            stage("--tables {input:q} --fate {output.fate:q} --law {output.law:q}")


# One rho of the digits, every rule.
rule digits_of_selection:
    output:
        f"{RESULTS}/probes/{{study}}/{{cell}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/selection/{{study}}/{{cell}}/seeds={{block}}.log",
    wildcard_constraints:
        study="selection_digits",
    resources:
        mem_mb=growing(2000),
        runtime=growing(60),
    params:
        job=told("studies.selection.digits", (), lambda study, cell: study.trained()),
    shell:
        stage("--output {output:q}")


rule join_digits_of_selection:
    input:
        of_study("probes", "selection_digits", "parquet"),
    output:
        table("selection_digits"),
    log:
        f"{RESULTS}/logs/aggregate/selection_digits.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        job=told_for_table("selection_digits"),
        results=lambda wildcards: RESULTS,
    shell:
        stage("--results {params.results:q} --output {output:q}")
