"""Durable turns: the journal, one lane per session, the outbox. See `base` for the seam."""
