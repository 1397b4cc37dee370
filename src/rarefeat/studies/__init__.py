"""The kinds of study, a folder each; rarefeat/registry.py lists them."""
