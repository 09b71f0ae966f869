"""The vocabulary of all rooms: events and messages, records, time, tasks with a parent, loading of parts, redaction.

Nothing here knows a room above it; `catalog` names parts as strings, which `plugins` imports when they are used.
"""
