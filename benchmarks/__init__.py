"""Benchmarks: each checks its answers before it is timed and prints the command that repeats it."""
