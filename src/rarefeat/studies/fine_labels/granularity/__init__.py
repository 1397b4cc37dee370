"""Granularity sweep on images: label schemes, digits, photographs, and figures."""
