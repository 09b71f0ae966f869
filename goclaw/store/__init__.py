"""Permanent storage in one SQLite file.

`tables` defines the schema, `database` writes in groups and reads, `migrations` brings old files up to date;
`transcripts` is the interface for the rest of the system. Only the daemon (or, under its lock, one CLI command) opens
the file; `goclaw.ops.backup` reads it.

All writes share one connection; writes that wait during a commit are committed together with the next. Inbox, intents
and `sending` marks are on disk when the call returns (`synchronous=FULL`); the rest survives kill -9. A write that the
disk refuses raises `DiskError`. `recovery` sets a damaged file aside, `salvage` reads its readable rows.
"""
