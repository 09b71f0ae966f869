"""Channels: the places where people write. A channel never knows a tool, and no other room knows a channel: see `base`.

Through a `Handover` a channel reports that it sends a part of a delivery (not while the part still waits for a rate
limit) and that the part has arrived; `goclaw.durable.engine` makes both durable.
"""
