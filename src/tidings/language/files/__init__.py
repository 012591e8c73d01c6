"""Files of subscriptions: CSV, JSON lines and plain text, one file for each format."""
