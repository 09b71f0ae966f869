"""Health of the daemon: latency of its event loop, stack dumps, and notifications to a service manager.

It watches and reports; it mends nothing. `vitals.open_vitals` is the way in.
"""
