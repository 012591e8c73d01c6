"""Experiments, and what they showed: one file an experiment, one report."""
