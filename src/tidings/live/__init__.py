"""The same state machines on real sockets: routers, clients, access, and what they show."""
