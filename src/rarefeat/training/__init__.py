"""Learners of one's own: data law, encoder, loss and optimiser, by name or from one's own file."""
