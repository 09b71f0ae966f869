"""Places where people write. A channel never knows a tool, and no other room knows a channel: see `base`."""
