# Pages of the report that a browser shows: what is in tables and in Markdown, and the claims.


rule tables_page:
    input:
        lambda wildcards: [
            table(name) for name in PROJECT.browsed[wildcards.browsed].tables
        ],
    output:
        report(
            f"{RESULTS}/pages/{{browsed}}.html",
            caption="../report/tables.rst",
            category=lambda wildcards: PROJECT.browsed[wildcards.browsed].category,
            labels=lambda wildcards: {"tables": wildcards.browsed.replace("_", " ")},
        ),
    log:
        f"{RESULTS}/logs/pages/{{browsed}}.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        job=lambda wildcards: written(PROJECT.browsed_job(wildcards.browsed)),
    shell:
        stage("--tables {input:q} --output {output:q}")


rule claims_page:
    input:
        table("claims_{paper}"),
    output:
        report(
            f"{RESULTS}/pages/claims_{{paper}}.html",
            caption="../report/claims.rst",
            category="Claims",
            labels={"paper": "{paper}", "kind": "every claim"},
        ),
    log:
        f"{RESULTS}/logs/pages/claims_{{paper}}.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        job=lambda wildcards: written(PROJECT.claims_page_job(wildcards.paper)),
    shell:
        stage("--tables {input:q} --output {output:q}")


rule text_page:
    input:
        f"{RESULTS}/{{page}}.md",
    output:
        report(
            f"{RESULTS}/pages/{{page}}_text.html",
            caption="../report/text.rst",
            category="Summary",
            labels=lambda wildcards: {"page": PROJECT.pages[wildcards.page].title},
        ),
    log:
        f"{RESULTS}/logs/pages/{{page}}_text.log",
    resources:
        mem_mb=growing(1000),
        runtime=growing(5),
    params:
        job=lambda wildcards: written(PROJECT.text_page_job(wildcards.page)),
    shell:
        stage("--text {input:q} --output {output:q}")
