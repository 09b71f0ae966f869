"""Permanent storage: one database, and the files that it refers to.

`schema` defines the tables, `database` the statements and the grouped writer; `transcripts` is the interface for the
rest of the system. `sqlite` (the default) and `postgres` are the two stores, `open` opens the one that is configured;
everything else here is the same for both. A write that the store refuses raises `DiskError`.
"""
