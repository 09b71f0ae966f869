"""Embedders: texts as vectors, close together for similar meanings. `base` has the seam, `open` the configured choice.

One file per kind; the catalogue names them.
"""
