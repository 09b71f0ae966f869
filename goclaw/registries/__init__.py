"""Registries: catalogues of toolsets, agents and MCP servers that gateways share (docs/registries.md).

`base` is what stands in one, `shelf` the file in which it is kept: what was fetched of others, and what this gateway
serves itself. Nothing here is loaded while neither `registries` is configured nor `goclaw registry` called.
"""
