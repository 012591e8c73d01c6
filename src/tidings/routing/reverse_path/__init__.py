"""Learning by the reverse path: events follow subscriptions back to the subscribers (S10, S18)."""
