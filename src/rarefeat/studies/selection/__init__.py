"""Study of selection: which neurons to prune, and what changes the critical frequency."""
