"""What an operator's own programs and Python functions may look at, change or forbid.

`base` has the points and what a hook answers; `commands` runs programs; `open` makes hooks of the configuration and of
plugins.
"""
