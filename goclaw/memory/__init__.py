"""Notes and conversations, found again. `base` has the port, `service` implements it, `desk` is for terminals.

What is found comes from an index file (`shelves`), a copy that may be deleted at any time: `sweeping` and `watching`
bring notes onto it, `listening` what was said. `searching` asks it by words, `meaning` by vectors, `ranking` puts what
both found in order (pure: it knows no index), `excerpts` makes of it what is shown.

The files in the workspace and the transcripts are the truth.
"""
