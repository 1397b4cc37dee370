"""Study of coarse and fine labels: which rare features a network learns (Hong et al.)."""
