"""Theorem 3.1 across sizes: lucky sets and learned features against d, m and d1."""
