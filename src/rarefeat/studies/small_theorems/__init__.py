"""Small theorems of the dissertation and of Liao et al., each measured in about a minute."""
