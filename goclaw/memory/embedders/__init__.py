"""Embedders: texts as vectors, close together for similar meanings.

`base` has the seam, the catalogue names the kinds, and `goclaw.memory.embedding` opens the configured one.
"""
