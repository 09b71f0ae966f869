"""Backup to one file and restore: `goclaw backup` and `goclaw restore`.

An archive is a gzipped tar of plain files and folders with a manifest at its end: `archive` writes one, and checks and
reads one from any source. `collect` selects the content; `restore` the parts to bring back, and where to; `settle`
closes the unfinished work in the copy; `swap` replaces the old state by the new one, completely or not at all.

A backup is the one exception to "one process on the database", and only reads: it opens the file with `mode=ro` and
runs one `VACUUM INTO`. In WAL mode a reader sees the file as it was when it began and blocks no writer; its locks end
with its process. It never contacts the daemon, so that it also works when the daemon hangs. The price is a write-ahead
log that grows until the copy is done.

A restore takes the lock of the state folder, prepares everything next to its destination, records its decision in one
journal file (`swap`), and only then renames. The next process that opens the folder finishes a recorded swap.
"""
