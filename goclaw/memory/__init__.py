"""Search over notes and conversations. `base` has the port, `service` implements it, `memory_queries` serves terminals.

Results come from an index file (`index`), a copy that may be deleted at any time: `file_indexer` and `watching` add
notes to it, `transcript_indexer` conversations. `searching` finds by words, `vector_search` by vectors, `ranking`
merges both (pure: it knows no index), `excerpts` makes the texts that are shown. `user_memory` is what the
agent keeps by itself, in files.

The files in the workspace and the transcripts are the source of truth. Each commit of the database (`Database.written`)
wakes the transcript indexer, which continues by row number (`store.reading`) in parallel to the turns; a search first
indexes the rows written before it. Places in the index follow the order of the conversation, so that the right to
search (`transcript_search`) is a range of places, applied before any limit.
"""
