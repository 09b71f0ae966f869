"""Documents that people send, as text: read by parsers in a process of their own, which the exec sandbox contains.

`reading` is the daemon's side: it starts `worker` in the sandbox, with the file as its standard input, and takes a
bounded answer. `formats` has a file for each family of formats; the daemon imports none of them.
"""
