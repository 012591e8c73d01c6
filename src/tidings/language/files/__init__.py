"""Files of subscriptions: CSV, JSON lines and plain text, one module for each format."""
