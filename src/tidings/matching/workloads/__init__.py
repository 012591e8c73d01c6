"""The workloads, one module each, and what they share: random draws and made-up words."""
