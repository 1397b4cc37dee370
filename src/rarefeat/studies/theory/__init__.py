"""The theory of the core paper as measured claims: its stages, its laws, and what its pruning theorem takes for granted."""
