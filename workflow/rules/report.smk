# Pages of the report that a browser shows: what is in tables and in Markdown, the claims, and how long everything took.


rule tables_page:
    input:
        tables=lambda wildcards: [
            f"{RESULTS}/tables/{table}.parquet"
            for table in PAGES[wildcards.page].tables
        ],
        code=code("browse"),
    output:
        report(
            f"{RESULTS}/pages/{{page}}.html",
            caption="../report/tables.rst",
            category="Tables",
            labels=lambda wildcards: {"tables": wildcards.page.replace("_", " ")},
        ),
    log:
        f"{RESULTS}/logs/pages/{{page}}.log",
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    shell:
        "python -m rarefeat.browse tables {wildcards.page} --tables {input.tables:q} --output {output:q} 2>&1 | tee {log:q}"


rule claims_page:
    input:
        table=f"{RESULTS}/tables/claims.parquet",
        code=code("browse"),
    output:
        report(
            f"{RESULTS}/pages/claims.html",
            caption="../report/claims.rst",
            category="Claims",
            labels={"part": "every claim", "kind": "table"},
        ),
    log:
        f"{RESULTS}/logs/pages/claims.log",
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    shell:
        "python -m rarefeat.browse claims --table {input.table:q} --output {output:q} 2>&1 | tee {log:q}"


rule text_page:
    input:
        text=f"{RESULTS}/{{text}}.md",
        code=code("browse"),
    output:
        report(
            f"{RESULTS}/pages/{{text}}.html",
            caption="../report/text.rst",
            category="Summary",
            labels=lambda wildcards: {"page": TEXTS[wildcards.text]},
        ),
    log:
        f"{RESULTS}/logs/pages/{{text}}.log",
    threads: 1
    resources:
        mem_mb=growing(1000),
        runtime=growing(5),
    shell:
        "python -m rarefeat.browse text --text {input.text:q} --output {output:q} 2>&1 | tee {log:q}"


# What all of it took, as far as it has run: after everything else, and again with `make report`.
rule run_times:
    input:
        products=PRODUCTS,
        code=code("browse"),
    output:
        report(
            f"{RESULTS}/pages/run_times.html",
            caption="../report/run_times.rst",
            category="Run times",
            labels={"page": "run times by rule"},
        ),
    log:
        f"{RESULTS}/logs/pages/run_times.log",
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        benchmarks=f"{RESULTS}/benchmarks",
        patterns=benchmarks,
    shell:
        "python -m rarefeat.browse run_times --benchmarks {params.benchmarks:q} --patterns {params.patterns:q} --output {output:q}"
        " 2>&1 | tee {log:q}"
