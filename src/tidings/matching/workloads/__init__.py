"""One file a workload, and what they share: drawing by row number, and words."""
