# Learners of one's own: a learning rate for each learner, then its trainings.

from rarefeat.studies.learners.declaration import CHOOSE_RATE, LEARN


# The rate of a learner, on balanced data and other seeds.
rule choose_rate:
    output:
        rates="<results>/rates/{study}/learner={learner}/seeds={seeds}.parquet",
    log:
        "<results>/logs/choose_rate/{study}/learner={learner}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(PROJECT.studies_of(CHOOSE_RATE)),
        learner=r"[^/]+",
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(30),
        gpu=gpus,
    params:
        *told(stage_job(CHOOSE_RATE)),
        function=CHOOSE_RATE.function,
        place=place_of,
    shell:
        RUN_STAGE


# One learner at one frequency.
rule train_learner:
    input:
        rates=rules.choose_rate.output.rates,
    output:
        readouts="<results>/readouts/{study}/learner={learner}/pairs={pairs}/eps_min={eps_min}/seeds={seeds}.parquet",
    log:
        "<results>/logs/train_learner/{study}/learner={learner}/pairs={pairs}/eps_min={eps_min}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(PROJECT.studies_of(LEARN)),
        learner=r"[^/]+",
        pairs=r"[^/]+",
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(30),
        gpu=gpus,
    params:
        *told(stage_job(LEARN)),
        function=LEARN.function,
        place=place_of,
    shell:
        RUN_STAGE
