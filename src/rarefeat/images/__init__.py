"""Long-tailed images: pretraining without labels, with and without pruning, and linear probes."""
