"""What protocols share: neighbours, links of the network, interests, duplicates, local users."""
