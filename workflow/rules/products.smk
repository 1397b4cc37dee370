# What every kind of study makes in the same way: tables of several studies in one, figures, pages, claims; and the targets.


# What a kind says of its stages and tables is enough of a rule, where it has none of its own: under the name of the function.
OWN = {made.name for made in workflow.rules}


for cells in (one for kind in kinds().values() for one in kind.stages):
    if cells.name in OWN:
        continue

    rule:
        name:
            cells.name
        input:
            [
                file_of(before, folder)
                for before in cells.after
                for folder in before.folders
            ],
        output:
            [
                f"{RESULTS}/{folder}/{{study}}/{{cell}}/seeds={{block}}.{suffix}"
                for folder, suffix in cells.folders.items()
            ],
        log:
            f"{RESULTS}/logs/{cells.name}/{{study}}/{{cell}}/seeds={{block}}.log",
        wildcard_constraints:
            study=either(PROJECT.run_through(cells)),
        resources:
            mem_mb=growing(cells.mem_mb),
            runtime=growing(cells.runtime),
        params:
            job=told(cells),
            results=lambda wildcards: RESULTS,
        shell:
            stage("--results {params.results:q} --output {output:q}")


for function in sorted({item.stage for item in PROJECT.tables.values() if item.made}):
    if (name := function.partition(":")[2]) in OWN:
        continue

    rule:
        name:
            name
        input:
            gathered("{made}"),
            tables=lambda wildcards: [
                table(other) for other in PROJECT.tables[wildcards.made].tables
            ],
        output:
            table("{made}"),
        log:
            f"{RESULTS}/logs/{name}/{{made}}.log",
        wildcard_constraints:
            made=either(names_of(function)),
        resources:
            mem_mb=growing(4000),
            runtime=growing(20),
        params:
            job=told_for_table("{made}"),
            results=lambda wildcards: RESULTS,
        shell:
            stage(
                "--tables {input.tables:q} --results {params.results:q} --output {output:q}"
            )


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
        job=lambda wildcards: written(PROJECT.figure_job(wildcards.figure)),
    shell:
        stage("--tables {input:q} --output {output:q}")


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
        job=lambda wildcards: written(PROJECT.page_job(wildcards.page)),
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
for target in PROJECT.targets:
    if target in taken:
        raise WorkflowError(
            f"config: the study {target} has the name of a rule of the workflow; give it another one"
        )
# So is each figure and table, of which a rule each would cost a second: those that the command line names.
ASKED = {
    name: PROJECT.names[name] for name in set(sys.argv) & set(PROJECT.names) - taken
}
for target, paths in (PROJECT.targets | ASKED).items():

    rule:
        name:
            target
        input:
            [f"{RESULTS}/{path}" for path in paths],
