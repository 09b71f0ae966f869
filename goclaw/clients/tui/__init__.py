"""The terminal client: a process of its own that connects to the daemon's socket. It imports nothing of the server."""
