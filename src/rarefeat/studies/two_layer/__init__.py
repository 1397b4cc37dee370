"""Emergence of features in two-layer networks (shi_feature_learning, chapters 2 and 3).

Tables A.1-A.6.
"""
