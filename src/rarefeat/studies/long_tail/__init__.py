"""Table 2: contrastive pretraining on long-tailed images, without and with pruning."""
