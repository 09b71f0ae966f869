"""GoClaw as an MCP server: the tools, files, conversations and prompts that a user may use, for other programs.

`ports` is what it stands on and `offer` what both ways in share; `stdio` and `http` are these ways. Everything but
`ports` imports the library, which takes more than a second: it is loaded through the catalogue, in a thread.
"""
