"""What is made from the files of cells: tables, figures, pages; and the targets."""


rule measure:
    """Measure one cell and seed block of a study whose only stage trains and measures."""
    output:
        "<results>/probes/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/measure/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(PROJECT.measured),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(60),
    params:
        *told(stage_job(lambda study: PROJECT.measured[study])),
        function=lambda wildcards: PROJECT.measured[wildcards.study].function,
    shell:
        "rarefeat run {params.function} {wildcards.study} --cell {wildcards.cell:q}"
        " --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"


rule tabulate:
    """Make a table from the files of cells and from other tables."""
    input:
        cells=cell_files(),
        tables=source_tables(),
    output:
        "<results>/tables/{table}.parquet",
    log:
        "<results>/logs/tables/{table}.log",
    wildcard_constraints:
        table=any_of(PROJECT.tables_of("tabulate")),
    resources:
        mem_mb=scale_with_attempt(4000),
        runtime=scale_with_attempt(20),
    params:
        *told(lambda wildcards: PROJECT.table_job(wildcards.table)),
        function=lambda wildcards: PROJECT.tables[wildcards.table].function,
    shell:
        "rarefeat run {params.function} {wildcards.table} --output {output:q} > {log:q} 2>&1"


rule plot:
    """Draw a figure from tables, for the screen and for print."""
    input:
        tables=lambda wildcards: tables(PROJECT.figures[wildcards.figure].tables),
    output:
        report(
            "<results>/figures/{figure}.png",
            caption="../report/figure.rst",
            category="Figures",
            labels=lambda wildcards: {
                "study": PROJECT.title_of(wildcards.figure),
                "figure": wildcards.figure.replace("_", " "),
            },
        ),
        "<results>/figures/{figure}.pdf",
    log:
        "<results>/logs/plot/{figure}.log",
    wildcard_constraints:
        figure=any_of(PROJECT.figures),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(10),
    params:
        *told(lambda wildcards: PROJECT.figure_job(wildcards.figure)),
        function=lambda wildcards: PROJECT.figure_job(wildcards.figure).stage,
    shell:
        "rarefeat run {params.function} {wildcards.figure} --output {output:q} > {log:q} 2>&1"


rule page:
    """Write a page of figures, tables and claims as Markdown, and as HTML for the report."""
    input:
        tables=lambda wildcards: tables(PROJECT.pages[wildcards.page].tables),
        figures=lambda wildcards: [
            f"<results>/figures/{name}.png" for name in PROJECT.pages[wildcards.page].figures
        ],
    output:
        "<results>/{page}.md",
        report(
            "<results>/pages/{page}.html",
            caption="../report/page.rst",
            category="Pages",
            labels=lambda wildcards: {"page": PROJECT.pages[wildcards.page].title},
        ),
    log:
        "<results>/logs/pages/{page}.log",
    wildcard_constraints:
        page=any_of(PROJECT.pages),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(10),
    params:
        *told(lambda wildcards: PROJECT.page_job(wildcards.page)),
    shell:
        "rarefeat run workflow.pages:page {wildcards.page} --output {output:q} > {log:q} 2>&1"


rule all_claims:
    """Measure the claims of the papers of which a kind of study is made by default."""
    input:
        [f"<results>/{path}" for path in PROJECT.default_claims],


rule existing_outputs:
    """For `snakemake --report FILE -- existing_outputs`: what is there; it computes nothing."""
    input:
        lambda wildcards: existing_outputs(),
