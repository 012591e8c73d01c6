"""Structured overlays, and what routes by content on them: trees of publishers and of types."""
