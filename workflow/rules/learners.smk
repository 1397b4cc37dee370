"""Learners of one's own: a learning rate for each learner, then its trainings."""


rule choose_rate:
    """Choose the rate of a learner, on balanced data and other seeds."""
    output:
        rates="<results>/rates/{study}/learner={learner}.parquet",
    log:
        "<results>/logs/choose_rate/{study}/learner={learner}.log",
    wildcard_constraints:
        study=runs("studies.learners.measure:choose_rate"),
        learner=r"[^/]+",
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(30),
        gpu=gpus,
    params:
        *reads(
            "studies.learners.measure:choose_rate",
            *("draws", "data", "training", "sigma", "learner", "arm"),
            *("rates", "rate_seeds", "first_rate_seed"),
        ),
    shell:
        "rarefeat run studies.learners.measure:choose_rate {wildcards.study}"
        " --cell learner={wildcards.learner} --output {output:q} > {log:q} 2>&1"


rule train_learner:
    """Train and measure one learner at one frequency."""
    input:
        rates=rules.choose_rate.output.rates,
    output:
        readouts="<results>/readouts/{study}/learner={learner}/pairs={pairs}/eps_min={eps_min}/seeds={seeds}.parquet",
    log:
        "<results>/logs/train_learner/{study}/learner={learner}/pairs={pairs}/eps_min={eps_min}/seeds={seeds}.log",
    wildcard_constraints:
        study=runs("studies.learners.measure:learn"),
        learner=r"[^/]+",
        pairs=r"[^/]+",
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(30),
        gpu=gpus,
    params:
        *reads(
            "studies.learners.measure:learn",
            *("draws", "data", "training", "sigma", "learner", "arm"),
        ),
    shell:
        "rarefeat run studies.learners.measure:learn {wildcards.study}"
        " --cell learner={wildcards.learner}/pairs={wildcards.pairs}/eps_min={wildcards.eps_min}"
        " --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"
