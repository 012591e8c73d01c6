"""Matchers from the literature to compare with: counting and the parallel search tree."""
