"""The live network: routers and clients on real sockets, around the protocols of `routing`."""
