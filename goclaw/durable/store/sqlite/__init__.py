"""The store in one SQLite file.

Only the daemon (or, under its lock, one CLI command) opens it; `goclaw.program.ops.backup` reads it.

Inbox, intents and `sending` marks are on disk when the call returns (`synchronous=FULL`); the rest survives kill -9.
`migrations` makes the file and brings old ones up to date, `recovery` sets a damaged file aside and keeps its readable
rows.
"""
