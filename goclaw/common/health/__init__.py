"""The daemon's own health: event loop, disk, memory, readiness, and reports to a service manager.

It watches and reports; it mends nothing. `vitals.open_vitals` is the way in.

`heartbeat` beats on the event loop and is watched from a thread: a slow loop is a figure in `/status`, a stuck one a
line in the log with every stack, and silence towards systemd, which then restarts the daemon.

Tools are foreign code, so they are awaited indirectly (`stuck_tasks`): a tool that ignores its cancellation is
abandoned after ten seconds, and its ports are closed.
"""
