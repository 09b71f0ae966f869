"""Hooks: an operator's programs and Python functions that observe, change or forbid events.

`base` has the points and the answers; `commands` runs programs; `open` makes hooks of the configuration and of plugins.
"""
