"""The report, and the pages of docs/ that are rendered from the code."""
