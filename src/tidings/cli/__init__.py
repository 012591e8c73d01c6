"""The commands that a person types: one file for each, and `main`, which puts them together."""
