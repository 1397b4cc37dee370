"""Theorems and exact results, a file each: what is measured beside what the text states of it.

Keys of the config are in `problems.py`, which a plan reads; rows and tables in `results.py`.
`exact_results.py` and `small_theorems.py` beside this folder declare the two kinds of study.
"""
