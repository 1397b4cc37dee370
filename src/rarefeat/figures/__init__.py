"""Style, labels, building blocks and files of figures."""
