"""Embedders: from texts to vectors whose closeness is closeness of meaning. `base` has the seam, `open` what is chosen.

One file per kind; the catalogue names them.
"""
