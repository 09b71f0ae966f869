"""A conversation: turns, sessions, the agent's loop, compaction, approvals, schedules."""
