"""The wire protocol: what nodes and clients say to each other, as messages in frames."""
