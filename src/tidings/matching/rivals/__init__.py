"""Rivals of `Table` from the literature: the counting algorithm and the parallel search tree."""
