"""The search over what the agent wrote down for later. `base` has the port, `service` the one implementation.
`ranking` says which passages of conversations answer a query; it is pure and knows no index.

The files in the workspace are the truth. The index is a copy that may be deleted at any time: it is made anew.
"""
