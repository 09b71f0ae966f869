"""Ports of this machine for what is started later."""

import secrets
import socket

PORTS = range(20_000, 32_000)
"""For what asks for no certain one, systems choose from 32,768 (Linux) or 49,152 (RFC 6335) on: a port of these does
not become that of a connection before it is listened on, or while its server is restarted."""


def free_port() -> int:
    """A port that nothing listens on now."""
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
