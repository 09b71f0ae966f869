"""Keeping everything in one file and getting it back: `goclaw backup` and `goclaw restore`.

An archive is a gzipped tar of plain files and folders with a `manifest` at its end: `pack` writes one, `unpack` checks
and reads one, whoever made it. `collect` decides what goes in; `restore` what comes out, and to where; `settle` closes
what the copy had under way; `swap` puts the new state in the place of the old, whole or not at all.
"""
