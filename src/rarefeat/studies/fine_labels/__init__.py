"""Labels coarse and fine: what a network learns of the features that few samples have (Hong et al.)."""
