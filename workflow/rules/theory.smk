# What claims of the theory are read from, beside the chain.

# Of every study with a kept history: milestones of training, one step with the assumed mask, the smallest neurons.
THEORY_TABLES = ("milestones", "one_step", "overlap")


rule read_from_encoders:
    input:
        encoders_of,
    output:
        table("{study}_{read}"),
    log:
        f"{RESULTS}/logs/theory/{{study}}_{{read}}.log",
    wildcard_constraints:
        study=either(PROJECT.sections["theory"].every_study()),
        read=either(THEORY_TABLES),
    resources:
        mem_mb=growing(2000),
        runtime=growing(20),
    params:
        job=told_for_table("{study}_{read}"),
        results=lambda wildcards: RESULTS,
    shell:
        stage("--results {params.results:q} --output {output:q}")
