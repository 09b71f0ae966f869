"""The terminal client: a process of its own that talks to the daemon over the socket. It imports nothing of the server.

`client` speaks the protocol, `link` keeps a conversation attached; `plain` is a conversation in plain lines, `app` and
`widgets` the full client, which alone import Textual.
"""
