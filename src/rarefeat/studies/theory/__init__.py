"""The theory of the core paper as measured claims.

Its stages, its laws, and the assumption of its pruning theorem.
"""
