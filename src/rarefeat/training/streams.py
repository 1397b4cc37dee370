"""Pairs of a data law as a data source of any PyTorch project, without a training."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from rarefeat.model import stream_names
from rarefeat.model.randomness import make_generators
from rarefeat.training.learners import DataLawSource, Learner
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
        source = DataLawSource(*self.settings)
        self.dictionary = source.simulator.dictionary[0]

    def __iter__(
        self,
    ) -> Iterator[tuple[Float[Tensor, "K L d1"], Float[Tensor, "K L d1"], Float[Tensor, "K d"]]]:
        """Yield batches, without end."""
        namespace, *others = self.settings
        worker = get_worker_info()
        name = f"{namespace}/worker {worker.id}" if worker and worker.id else namespace
        source = DataLawSource(namespace, *others)
        # The features of all workers are the same, and their pairs and noise are not.
        source.namespace = name
        noise = make_generators(name, source.seeds, stream_names.NOISE, source.device)
        K = source.training.K
        for pairs in source.training_pairs(self.eps_min):
            with torch.no_grad():
                tokens = source.sample_tokens(pairs, noise)[0]
            yield tokens[:K], tokens[K : 2 * K], pairs.features[0]
