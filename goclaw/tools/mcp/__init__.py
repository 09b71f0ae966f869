"""The Model Context Protocol: the code common to client and server, and the connections to configured servers.

`servers` runs one task per server, which opens and closes the connection (`connection`: the only user of the library).
Calls are made in the caller's task, so that cancellation reaches them. A server's listing is checked (`validation`,
`approved_tools`) before `goclaw.tools.builtin.mcp_tools` makes tools of it: a `Tool` with a JSON Schema for its
arguments, otherwise a tool like any other. The library and the schema checker are loaded in a thread, through
`catalog.MCP`, and only when a server is configured. This room knows no registry: a server that comes from one is
resolved by a `base.Finder`.
"""
