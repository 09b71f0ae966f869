"""The index file: one rebuildable SQLite file, apart from the database that must never be lost.

`schema` has the tables and scopes, `database` the open file. The rest are plain functions over a connection, each
called in a thread: `notes` and `talk` write passages of files and of conversations, `windows` those texts of
conversations that get vectors, `text_vectors` writes and reads vectors. `goclaw.memory.searching` reads passages.
"""
