# Two-layer networks: each setting and block of seeds in one job; the search for the rates, on draws of its own.

from rarefeat.studies.two_layer.kind import MEASURED, SEARCHED

TWO_LAYER = PROJECT.sections["two_layer"]


# Every arm of a setting, trained and measured.
rule measure_two_layer:
    output:
        numbers=f"{RESULTS}/probes/{{study}}/{{cell}}/seeds={{block}}.parquet",
        pictures=f"{RESULTS}/pictures/{{study}}/{{cell}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/two_layer/{{study}}/{{cell}}/seeds={{block}}.log",
    wildcard_constraints:
        study="emergence",
    resources:
        mem_mb=growing(2000),
        runtime=growing(60),
    params:
        job=told(
            "studies.two_layer.measure",
            (),
            lambda study, cell: {
                "setting": study.settings[cell["setting"]],
                "pictured": study.first_seed,
            },
        ),
    shell:
        stage("--numbers {output.numbers:q} --pictures {output.pictures:q}")


# Every candidate for the rates of a setting.
rule search_rates:
    output:
        f"{RESULTS}/probes/{{study}}/{{cell}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/two_layer/{{study}}/{{cell}}/seeds={{block}}.log",
    wildcard_constraints:
        study="rate_search",
    resources:
        mem_mb=growing(2000),
        runtime=growing(60),
    params:
        job=told(
            "studies.two_layer.search",
            (),
            lambda study, cell: {
                "setting": TWO_LAYER.searched(cell["setting"]),
                "candidates": study.grid,
            },
        ),
    shell:
        stage("--output {output:q}")


# The tables of all settings, and their summary beside what is printed.
rule aggregate_two_layer:
    input:
        of_study("probes", "emergence", "parquet"),
        of_study("pictures", "emergence", "parquet"),
    output:
        [table(name) for name in MEASURED],
    log:
        f"{RESULTS}/logs/aggregate/two_layer.log",
    resources:
        mem_mb=growing(4000),
        runtime=growing(20),
    params:
        job=told_for_table(MEASURED[0]),
        results=lambda wildcards: RESULTS,
    shell:
        stage("--results {params.results:q} --output {output:q}")


# The rates that the search chooses, held against those of the config.
rule choose_rates:
    input:
        of_study("probes", "rate_search", "parquet"),
    output:
        search=table(SEARCHED[0]),
        rates=table(SEARCHED[1]),
    log:
        f"{RESULTS}/logs/aggregate/two_layer_rates.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        job=told_for_table(SEARCHED[0]),
        results=lambda wildcards: RESULTS,
    shell:
        stage(
            "--results {params.results:q} --search {output.search:q} --rates {output.rates:q}"
        )
