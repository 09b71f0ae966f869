"""The process for a model on this machine to embed in. `__main__` runs it, `protocol` has the frames and the queue.

A program of its own: nothing here imports anything of GoClaw but these files, and nothing that is not in the standard
library or needed by the model. It contacts only the address of the model that it is ordered to fetch.
"""
