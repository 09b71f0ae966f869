"""Permanent storage in one SQLite file.

`schema` defines the tables and brings old files up to date, `database` writes in groups and reads; `transcripts` is the
interface for the rest of the system. Only the daemon (or, under its lock, one CLI command) opens the file;
`goclaw.ops.backup` reads it.

All writes share one connection; writes that wait during a commit are committed together with the next. Inbox, intents
and `sending` marks are on disk when the call returns (`synchronous=FULL`); the rest survives kill -9. A write that the
disk refuses raises `DiskError`. `recovery` sets a damaged file aside and keeps its readable rows.
"""
