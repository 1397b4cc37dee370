"""Looks of figures, and how they are saved."""
