"""Pairs of a data law as a data source of any PyTorch project, without a training.

A law of one's own draws in a room (model/rooms.py), which lasts as long as the iterator.
"""

from collections.abc import Iterator
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from rarefeat.model import stream_names
from rarefeat.model.randomness import make_generators
from rarefeat.model.rooms import aside, mark, stream
from rarefeat.model.torch_settings import workflow_settings
from rarefeat.training.border import check_law, train_apart
from rarefeat.training.learners import DataLawSource, Learner, own_parts
from rarefeat.workflow.config.model import Data, Training


class PairStream(IterableDataset):
    """An endless stream of batches (first views, second views, features).

    It begins anew with each iterator. A worker of a DataLoader has draws of its own; use
    `batch_size=None`, since batches are drawn whole.

    Attributes
    ----------
    dictionary : float Tensor of shape (d1, d)
        Features as columns.

    Yields
    ------
    first_views, second_views : float Tensor of shape (K, L, d1)
        Tokens of both views of K positive pairs.
    features : float Tensor of shape (K, d)
        Features of the samples.
    """

    def __init__(
        self,
        namespace: str,
        learner: Learner,
        data: Data,
        training: Training,
        sigma: float,
        eps_min: float,
        seed: int,
    ):
        self.settings = namespace, learner, data, training, sigma, [seed]
        self.eps_min = eps_min
        self.own = own_parts(learner)
        (self.dictionary,) = train_apart(self.check, namespace, [seed], training, self.own)

    def check(self, seeds: list[int], training: Training) -> Float[Tensor, "d1 d"]:
        """Check the law, whose first pairs a rehearsal draws again; return the dictionary."""
        source = DataLawSource(*self.settings)
        aside(lambda: check_law(source.law, source.probability(), source.data.L, source.data.d1))
        pairs = source.training_pairs(self.eps_min)
        mark(*next(pairs)[:2], *next(pairs)[:2])
        return source.simulator.dictionary[0]

    def __iter__(
        self,
    ) -> Iterator[tuple[Float[Tensor, "K L d1"], Float[Tensor, "K L d1"], Float[Tensor, "K d"]]]:
        """Yield batches, without end."""
        worker, name = get_worker_info(), self.settings[0]
        name = f"{name}/worker {worker.id}" if worker and worker.id else name
        if self.own:
            return stream(partial(self.batches, name), (name, self.settings[-1][0]), self.own)
        return self.batches(name)

    def batches(self, name: str) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield batches of a worker, drawn as the workflow draws whatever is set between them."""
        with workflow_settings():
            source = DataLawSource(*self.settings)
            # The features of all workers are the same, and their pairs and noise are not.
            source.namespace = name
            noise = make_generators(name, source.seeds, stream_names.NOISE, source.device)
        pairs, K = source.training_pairs(self.eps_min), source.training.K
        while True:
            with workflow_settings(), torch.no_grad():
                batch = next(pairs)
                tokens = source.sample_tokens(batch, noise)[0]
            yield tokens[:K], tokens[K : 2 * K], batch.features[0]
