"""The language: what may be said about events, and what it means."""
