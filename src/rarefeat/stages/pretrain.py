"""Pipeline stage 2: contrastive training of all arms of a cell."""

from jaxtyping import Float
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.training.pretraining import ALWAYS, pretrain
from rarefeat.workflow.config.model import Arm, Data, Training
from rarefeat.workflow.run.job_inputs import JobInputs

DIVERGED_NORM = 1e6
"""Norm of a neuron above which its replica has diverged.

Beyond it in every replica of every arm, the config is wrong; in some of them, it is a result.
"""
ALL_DIVERGED = (
    "training diverged: norms of neurons pass 1e6 in every replica of every arm;"
    " lower eta, sigma or T"
)


def have_all_diverged(weights: Float[Tensor, "S m p"], loss: Float[Tensor, " S"]) -> bool:
    """Return whether in every replica a norm exceeds `DIVERGED_NORM` or the loss is infinite."""
    return bool(((weights.norm(dim=-1).amax(-1) > DIVERGED_NORM) | loss.isinf()).all())


def stage(
    inputs: JobInputs, draws: str, simulator: str, data: Data, training: Training, arms: list[Arm]
) -> tuple[dict[str, Tensor], list[dict]]:
    """Train the arms of a cell and seed block.

    Inputs: `train` of the file of latents. Outputs: the tensors of `TrainedEncoder` as ARM/FIELD,
    and the rows of the trajectories. RarefeatError if every replica of every arm has diverged.
    """
    job = inputs.job
    (latents,) = inputs.file("latents").tensors("train")
    encoders, trajectory = pretrain(
        draws, simulator, data, training, arms, job.cell["sigma"], job.seed_list, latents, job.label
    )
    tensors = {
        f"{arm}/{field}": tensor
        for arm, encoder in encoders.items()
        for field, tensor in encoder._asdict().items()
        if field in ALWAYS or tensor.numel()
    }
    if all(
        have_all_diverged(tensors[f"{arm.label}/weights"], tensors[f"{arm.label}/loss"])
        for arm in arms
    ):
        raise RarefeatError(ALL_DIVERGED)
    return tensors, trajectory
