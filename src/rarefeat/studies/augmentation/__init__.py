"""Augmentation: the features that an encoder learns from the two views (Wen & Li 2021)."""
