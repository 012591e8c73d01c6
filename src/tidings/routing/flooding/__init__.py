"""Flooding (S1), the baseline: every event goes everywhere."""
