"""What the files of the chain must say of themselves to the jobs of their cell that read them."""

from typing import Any

from rarefeat.run.job import Job

READ = ("draws", "simulator", "data", "training")
"""What encoders, trajectories and probes are made from, beside their arms, which are found by their names."""


def latents_of(job: Job) -> dict[str, Any]:
    """What the latents of a job's cell must say of themselves: they are those of every sigma and arm."""
    config = {name: job.config[name] for name in ("draws", "data")}
    return {
        "study": job.study,
        "cell": {"eps_min": job.cell["eps_min"]},
        "seeds": job.seeds,
        "config": config,
        "code": {"chain.synthesise": job.code.get("chain.synthesise")},
    }


def encoders_of(job: Job) -> dict[str, Any]:
    """What the encoders of a job's cell must say of themselves."""
    config = {name: job.config[name] for name in (*READ, "arms")}
    return {
        "study": job.study,
        "cell": job.cell,
        "seeds": job.seeds,
        "config": config,
        "code": {"chain.pretrain": job.code.get("chain.pretrain")},
    }
