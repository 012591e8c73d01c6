"""The engine, compiled ahead of time: see `engine.pyx`."""
