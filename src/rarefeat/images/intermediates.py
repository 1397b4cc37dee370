"""What the files of the image chain must say of themselves to the jobs that read them."""

from typing import Any

from rarefeat.run.job import Job

FILES = ("data", "contents")
"""What a job is told of the images: their section, and the digest of the user's files where there are some."""
LISTS = ("draws", *FILES, "lists")
"""Of the splits: likewise, with the digest of the index files."""
ENCODER = (*LISTS, "arm", "network", "augmentation", "training")


def images_of(job: Job) -> dict[str, Any]:
    """The images of a job's study."""
    return {"study": job.study, **held(job, FILES, "images.datasets")}


def splits_of(job: Job) -> dict[str, Any]:
    """The splits of a job's cell: they are those of every width and arm."""
    cell = {axis: job.cell[axis] for axis in ("rho", "split")}
    return {"study": job.study, "cell": cell, "seeds": job.seeds, **held(job, LISTS, "images.splits")}


def encoders_of(job: Job) -> dict[str, Any]:
    """The encoders of a job's cell."""
    return {"study": job.study, "cell": job.cell, "seeds": job.seeds, **held(job, ENCODER, "images.pretrain")}


def held(job: Job, parts: tuple[str, ...], stage: str) -> dict[str, Any]:
    """The parts of a job's config that it has in common with a stage before it, and that stage's code."""
    return {"config": {name: job.config[name] for name in parts if name in job.config}, "code": {stage: job.code.get(stage)}}
