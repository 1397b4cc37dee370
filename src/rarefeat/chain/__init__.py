"""The stages of the contrastive encoder: synthesise, pretrain, probe, aggregate."""
