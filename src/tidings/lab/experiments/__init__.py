"""The experiments, one file each; `tidings.lab.catalogue` is their table."""
