"""Every claim of the theory as a measured quantity: one module for each part of the papers, and claim.py for the verdicts."""
