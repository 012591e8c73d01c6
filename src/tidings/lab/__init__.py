"""Experiments that repeat the papers' measurements, and the report of their results."""
