"""Claims of the papers: declarations, measurements, verdicts, and their tables, figures and pages.

The claims of a kind of study are declared in `claims.yaml` of its folder; its module `claims`
measures them.
"""
