# Figures, pages of text and of tables, and the claims. The report shows what has a `report(...)`.

import functools


def title_of(name):
    """Return the title of the study kind of an output."""
    kind = PROJECT.kind_of.get(name)
    return kinds()[kind].title if kind else "claims"


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
                "study": title_of(wildcards.figure),
                "figure": wildcards.figure.replace("_", " "),
            },
        ),
        "<results>/figures/{figure}.pdf",
    log:
        "<results>/logs/plot/{figure}.log",
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


rule html_page:
    """Write a page of HTML alone, for the report."""
    input:
        tables=lambda wildcards: tables(PROJECT.html_pages[wildcards.page].tables),
    output:
        report(
            "<results>/pages/{page}.html",
            caption="../report/page.rst",
            category="Pages",
            labels=lambda wildcards: {"page": PROJECT.html_pages[wildcards.page].title},
        ),
    log:
        "<results>/logs/pages/{page}.log",
    wildcard_constraints:
        page=any_of(PROJECT.html_pages),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(10),
    params:
        *told(lambda wildcards: PROJECT.html_page_job(wildcards.page)),
        function=lambda wildcards: PROJECT.html_page_job(wildcards.page).stage,
    shell:
        "rarefeat run {params.function} {wildcards.page} --output {output:q} > {log:q} 2>&1"


rule all_claims:
    input:
        [
            f"<results>/{path}"
            for paper in PROJECT.default_papers
            for path in PROJECT.targets[f"claims_{paper}"]
        ],
        [
            f"<results>/{path}"
            for names in PROJECT.default_papers.values()
            for name in names
            if not kinds()[name].by_default
            for path in PROJECT.targets[name]
        ],


@functools.cache
def existing_outputs():
    """Return the figures and pages that a run has made so far, and say which are missing."""
    from rarefeat.workflow.report import find_existing_outputs

    paths, line, front_page = as_workflow_error(find_existing_outputs, PROJECT)
    print(line, file=sys.stderr)
    config.update(existing_outputs=line, front_page=front_page)
    return [f"<results>/{path}" for path in paths]


# For `snakemake --report FILE -- existing_outputs`, which computes nothing.
rule existing_outputs:
    input:
        lambda wildcards: existing_outputs(),
