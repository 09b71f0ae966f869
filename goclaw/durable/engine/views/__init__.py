"""The views that clients of one process have of sessions that another process owns."""
