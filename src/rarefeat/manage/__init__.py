"""Tools over a project and its results, which no job uses.

What is still so, what is accepted, compared and kept.
"""
