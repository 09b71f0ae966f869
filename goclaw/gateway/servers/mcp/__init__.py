"""GoClaw as an MCP server: the tools, files, conversations and prompts that a user may use, for other programs.

`backend` is the gateway underlying it, `offer` builds the library's server from `tools`, `resources_and_prompts` and
one `Hub` of changes (`watching`; `files` watches files for subscribers). It serves standard input and output itself;
`http` is the other transport, and `guard` checks requests before it. A call goes through the dispatcher as the user
of the token, in that user's own session; a file is read only where the tool `read` would open it. Everything but
`backend`, `uris`, `files` and `declarations` imports the library, which takes more than a second: it is loaded
through `catalog.SERVERS`, in a thread, where the configuration enables it. The process of `goclaw mcp serve` has its
own tools (as `goclaw tool run`) and the daemon's conversations.
"""
