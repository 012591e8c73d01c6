"""The experiments, one file each; `tidings.lab.catalogue` is the table of them."""
