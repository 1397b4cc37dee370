"""Long-tailed images: contrastive pretraining without labels, with and without pruning, and linear probes (Table 2)."""
