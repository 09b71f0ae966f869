"""The index file: one rebuildable SQLite file, apart from the database that must never be lost.

`schema` has the tables, `database` the open file. The rest are plain functions over a connection, each called in a
thread: `notes` and `talk` write passages of files and of conversations, `units` what gets a vector, `lookup` reads.
"""
