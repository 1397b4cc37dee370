# What every kind of study makes in the same way: tables of several studies in one, figures, pages, claims; and the targets.


rule join:
    input:
        lambda wildcards: [
            table(name) for name in PROJECT.tables[wildcards.joined].tables
        ],
    output:
        table("{joined}"),
    log:
        f"{RESULTS}/logs/join/{{joined}}.log",
    wildcard_constraints:
        joined=either(names_of("chain.join")),
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        job=told_for_table("{joined}"),
    shell:
        stage("--tables {input:q} --output {output:q}")


# One figure from its tables.
rule plot:
    input:
        lambda wildcards: [
            table(name) for name in PROJECT.figures[wildcards.figure].tables
        ],
    output:
        report(
            f"{RESULTS}/figures/{{figure}}.png",
            caption="../report/figure.rst",
            category="Figures",
            labels=lambda wildcards: {
                "study": title_of(wildcards.figure),
                "figure": wildcards.figure.replace("_", " "),
            },
        ),
        f"{RESULTS}/figures/{{figure}}.pdf",
    log:
        f"{RESULTS}/logs/plot/{{figure}}.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        job=lambda wildcards: PROJECT.figure_job(wildcards.figure).text,
        function=lambda wildcards: PROJECT.figures[wildcards.figure].function
        or wildcards.figure,
    shell:
        stage("{params.function} --tables {input:q} --output {output:q}")


# One page of Markdown from its tables.
rule page:
    input:
        lambda wildcards: [table(name) for name in PROJECT.pages[wildcards.page].tables],
    output:
        f"{RESULTS}/{{page}}.md",
    log:
        f"{RESULTS}/logs/pages/{{page}}.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        job=lambda wildcards: PROJECT.page_job(wildcards.page).text,
    shell:
        stage("--tables {input:q} --output {output:q}")


# The claims of one kind of study, measured.
rule measure_claims:
    input:
        lambda wildcards: [
            table(name) for name in PROJECT.claimed[wildcards.kind].tables
        ],
    output:
        table("{kind}_measured"),
    log:
        f"{RESULTS}/logs/claims/{{kind}}.log",
    resources:
        mem_mb=growing(4000),
        runtime=growing(20),
    params:
        job=told_for_table("{kind}_measured"),
    shell:
        stage("--tables {input:q} --output {output:q}")


# Their verdicts, for all kinds of study about one paper; and what half and double of a hyper-parameter change.
rule claims:
    input:
        lambda wildcards: [
            table(f"{kind}_measured") for kind in PROJECT.papers[wildcards.paper]
        ],
    output:
        table("{judged}_{paper}"),
    log:
        f"{RESULTS}/logs/claims/{{judged}}_{{paper}}.log",
    wildcard_constraints:
        judged="claims|sensitivity",
    resources:
        mem_mb=growing(4000),
        runtime=growing(20),
    params:
        job=told_for_table("{judged}_{paper}"),
    shell:
        stage("--tables {input:q} --output {output:q}")


rule all_claims:
    input:
        [
            f"{RESULTS}/{path}"
            for paper in PROJECT.papers_by_default
            for path in PROJECT.targets[f"claims_{paper}"]
        ],
        [
            f"{RESULTS}/{path}"
            for names in PROJECT.papers_by_default.values()
            for name in names
            if not kinds()[name].by_default
            for path in PROJECT.targets[name]
        ],


# Each kind of study and each study is a target under its own name.
taken = {made.name for made in workflow.rules}
for target, paths in PROJECT.targets.items():
    if target in taken:
        raise WorkflowError(
            f"config: the study {target} has the name of a rule of the workflow; give it another one"
        )

    rule:
        name:
            target
        input:
            [f"{RESULTS}/{path}" for path in paths],
