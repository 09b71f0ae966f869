"""The index file: one rebuildable SQLite file, apart from the database that must never be lost.

`schema` has the tables, `database` the open file. The rest are plain functions over a connection, each called in a
thread: `notes` and `talk` write passages of files and of conversations, `units` and `vectors` write and read vectors,
`lookup` reads passages.
"""
