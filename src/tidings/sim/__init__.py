"""A whole network in one thread from one seed: clock, links, faults, checks."""
