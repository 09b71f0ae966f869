"""The one way in: a message becomes a command (`commands`) or a turn; `alerts` reports faults to an admin, once."""
