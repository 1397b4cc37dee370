# Learners of one's own: a learning rate for each learner, then its trainings.

from rarefeat.studies.learners.declaration import CHOOSE_RATE, LEARN


# The rate of a learner, on balanced data and other seeds.
rule choose_rate:
    output:
        rates="<results>/rates/{study}/learner={learner}/seeds={seeds}.parquet",
    log:
        "<results>/logs/choose_rate/{study}/learner={learner}/seeds={seeds}.log",
    wildcard_constraints:
        study=runs(CHOOSE_RATE.function),
        learner=r"[^/]+",
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(30),
        gpu=gpus,
    params:
        *told(stage_job(lambda study: CHOOSE_RATE)),
        function=CHOOSE_RATE.function,
    shell:
        "rarefeat run {params.function} {wildcards.study} --cell learner={wildcards.learner}"
        " --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"


# One learner at one frequency.
rule train_learner:
    input:
        rates=rules.choose_rate.output.rates,
    output:
        readouts="<results>/readouts/{study}/learner={learner}/pairs={pairs}/eps_min={eps_min}/seeds={seeds}.parquet",
    log:
        "<results>/logs/train_learner/{study}/learner={learner}/pairs={pairs}/eps_min={eps_min}/seeds={seeds}.log",
    wildcard_constraints:
        study=runs(LEARN.function),
        learner=r"[^/]+",
        pairs=r"[^/]+",
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(30),
        gpu=gpus,
    params:
        *told(stage_job(lambda study: LEARN)),
        function=LEARN.function,
    shell:
        "rarefeat run {params.function} {wildcards.study} --cell learner={wildcards.learner}/pairs={wildcards.pairs}/eps_min={wildcards.eps_min}"
        " --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"
