"""What the files of the image chain must say of themselves to the jobs that read them."""

from typing import Any

from rarefeat.run.job import Job

ENCODER = ("draws", "data", "arm", "network", "augmentation", "training")


def images_of(job: Job) -> dict[str, Any]:
    """The images of a job's study."""
    return {"study": job.study, "config": {"data": job.config["data"]}, "code": came_through(job, "images.datasets")}


def splits_of(job: Job) -> dict[str, Any]:
    """The splits of a job's cell: they are those of every width and arm."""
    cell = {axis: job.cell[axis] for axis in ("rho", "split")}
    config = {name: job.config[name] for name in ("draws", "data")}
    return {"study": job.study, "cell": cell, "seeds": job.seeds, "config": config, "code": came_through(job, "images.splits")}


def encoders_of(job: Job) -> dict[str, Any]:
    """The encoders of a job's cell."""
    config = {name: job.config[name] for name in ENCODER}
    return {
        "study": job.study,
        "cell": job.cell,
        "seeds": job.seeds,
        "config": config,
        "code": came_through(job, "images.pretrain"),
    }


def came_through(job: Job, stage: str) -> dict[str, str | None]:
    """The code of a stage before the job's own."""
    return {stage: job.code.get(stage)}
