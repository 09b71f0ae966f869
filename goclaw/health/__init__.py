"""How the daemon itself is: whether its event loop answers, where everything stands, and telling a service manager.

It watches and reports; it mends nothing. `vitals.open_vitals` is the way in.
"""
