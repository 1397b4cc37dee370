"""rarefeat: what contrastive learning and pruning do to rare features, neuron by neuron."""
