"""What several protocols stand on: neighbours, the links of the network, interests, duplicates."""
