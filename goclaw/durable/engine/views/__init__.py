"""What clients of one process see of sessions that another process owns."""
