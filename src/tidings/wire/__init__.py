"""What nodes and clients say to each other: frames, and the messages in them."""
