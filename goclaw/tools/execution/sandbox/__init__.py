"""Containment of commands: contained, or refused. See `base` for the seam and `select` for the choice of a tier.

A command with network access reaches only a port on its own loopback: the socket is created inside its namespace and
served outside (`proxy_port`), by a proxy that asks the URL guard (`goclaw.common.net.proxy`).
"""
