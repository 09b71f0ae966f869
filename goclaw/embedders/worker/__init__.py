"""The process in which a model on this machine embeds. `__main__` runs it, `frames` is its protocol.

A program of its own: nothing here imports anything of GoClaw but these files, and nothing that is not in the standard
library or needed by the model. It reaches no address but that of a model which it was told to fetch.
"""
