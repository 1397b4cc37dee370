"""Which neurons to prune, where pruning can help at all, and where a rare feature's step lies."""
