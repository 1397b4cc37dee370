"""The error class for mistakes that a user can correct."""


class RarefeatError(Exception):
    """An error that the user can correct, with a message of one line."""
