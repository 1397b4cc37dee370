"""The kinds of study, a folder each; rarefeat/workflow/registry.py lists them."""
