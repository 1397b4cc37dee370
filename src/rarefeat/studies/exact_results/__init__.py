"""Exact, small results of Shi's dissertation.

A module for each compares closed forms with numbers that are computed without them.
"""
