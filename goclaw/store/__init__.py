"""What is kept for ever, in one SQLite file.

`tables` defines, `statements` compiles once, `database` writes in groups and reads, `migrations` brings old files up
to date; `transcripts` is how the rest of the system speaks of it. Only the daemon (or, under its lock, one CLI command)
opens the file.
"""
