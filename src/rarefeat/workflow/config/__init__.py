"""The config: its sections with types, bounds and meanings.

An edit here reruns what reads a changed value, no more.
"""
