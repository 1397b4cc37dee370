"""Studies on which claims of the theory are measured."""
