"""Who is connected to whom: graphs, their shortest-path trees, and topologies by name."""
