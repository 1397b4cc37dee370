# The stages of the contrastive encoder: latents -> pretraining -> probes -> tables of a study.

from rarefeat.study_kind import PRETRAIN, PROBE, SYNTHESISE


# Latent signals, which depend on the frequency alone: every noise level and arm has the same.
rule synthesise:
    output:
        latents="<results>/latents/{study}/eps_min={eps_min}/seeds={seeds}.safetensors",
    log:
        "<results>/logs/synthesise/{study}/eps_min={eps_min}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(ENCODER_STUDIES),
    resources:
        mem_mb=scale_with_attempt(1500),
        runtime=scale_with_attempt(5),
    params:
        job=stage_job(SYNTHESISE),
    shell:
        RUN_JOB


# One cell with all its arms, which see the same tokens.
rule pretrain:
    input:
        latents=rules.synthesise.output.latents,
    output:
        encoders="<results>/encoders/{study}/eps_min={eps_min}/sigma={sigma}/seeds={seeds}.safetensors",
        trajectories="<results>/trajectories/{study}/eps_min={eps_min}/sigma={sigma}/seeds={seeds}.parquet",
    log:
        "<results>/logs/pretrain/{study}/eps_min={eps_min}/sigma={sigma}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(ENCODER_STUDIES),
    resources:
        mem_mb=scale_with_attempt(1500),
        runtime=scale_with_attempt(20),
        gpu=gpus,
    params:
        job=stage_job(PRETRAIN),
    shell:
        RUN_JOB


def trained_encoders(wildcards):
    """Return the encoders of a cell; none where no arm of it is trained."""
    return rules.pretrain.output.encoders if find_cell(wildcards).trained else []


# Probes of the frozen encoders of one cell.
rule probe:
    input:
        latents=rules.synthesise.output.latents,
        encoders=trained_encoders,
    output:
        probes="<results>/probes/{study}/eps_min={eps_min}/sigma={sigma}/seeds={seeds}.parquet",
    log:
        "<results>/logs/probe/{study}/eps_min={eps_min}/sigma={sigma}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(ENCODER_STUDIES),
    resources:
        mem_mb=scale_with_attempt(1500),
        runtime=scale_with_attempt(10),
        gpu=gpus,
    params:
        job=stage_job(PROBE),
    shell:
        RUN_JOB
