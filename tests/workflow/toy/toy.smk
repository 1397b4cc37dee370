# Labels from sparse features.

TOY = PROJECT.sections["toy"].studies


# One number of samples, a block of seeds.
rule learn:
    output:
        f"{RESULTS}/learned/{{study}}/{{cell}}/seeds={{block}}.parquet",
    wildcard_constraints:
        study=either(TOY),
    log:
        f"{RESULTS}/logs/learn/{{study}}/{{cell}}/seeds={{block}}.log",
    params:
        job=told("studies.toy.learn", (), lambda study, cell: study.learned(cell)),
    shell:
        stage("--output {output:q}")


rule measure_toy:
    input:
        lambda wildcards: of_study("learned", wildcards.study, "parquet"),
    output:
        table("{study}_accuracy"),
    wildcard_constraints:
        study=either(TOY),
    log:
        f"{RESULTS}/logs/toy/{{study}}.log",
    params:
        job=told_for_table("{study}_accuracy"),
        results=lambda wildcards: RESULTS,
    shell:
        stage("--results {params.results:q} --output {output:q}")
