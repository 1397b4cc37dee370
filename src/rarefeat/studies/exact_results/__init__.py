"""What of Shi's dissertation is exact and small.

Closed forms beside what is computed without them, a module for each.
"""
