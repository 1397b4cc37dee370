"""Numbers that the dissertation prints of these results, by result, setting and quantity."""

KAPPA = {16: 4.57, 32: 3.13, 64: 2.07, 128: 1.62}
"""Section 8.6: mean condition number over ten problems, by the number of examples n."""
OOD_ERM, OOD_NUCLEAR = 0.76, 0.94
"""Section 6.3.1: accuracy out of domain, without and with the nuclear norm."""
AGREES = 0.7
"""Section 6.3.1: how often the environmental feature has the label's sign in domain, and has not
out of domain."""

PRINTED = {("looped_transformer", f"n={n}", "kappa"): value for n, value in KAPPA.items()}
