"""Pipeline stages of the contrastive encoder: synthesise, pretrain, probe, aggregate.

Axes are those of `rarefeat.model`.
"""
