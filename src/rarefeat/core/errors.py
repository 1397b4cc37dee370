"""The one error that a user can mend."""


class RarefeatError(Exception):
    """Something the user can mend, said in one line."""
