"""Registries: catalogues of toolsets, agents and MCP servers that gateways share (docs/registries.md).

`base` defines the entries, `catalog_store` the file that holds fetched entries and those that this gateway serves.
Nothing here is loaded unless `registries` is configured or `goclaw registry` is called.

`client` asks a registry page by page, each bounded (`pages`, also in the format of the public MCP registry); `syncing`
fetches periodically and stores the chosen entries. `resolving` turns `tools.from_registry` into the settings of an MCP
server; `finder` has the `mcp.base.Finder` that asks it at each attempt to connect and
notices changes by looking at the file, whichever process wrote it. Daemon, commands and `goclaw registry serve` use the
file side by side: `file` opens it for one transaction at a time.

`publishing` makes documents of the published sets from the very specs that `gateway.servers.mcp` lists, so that a
client that pins one finds the other, and reports them to each registry in a loop of its own. The last document
published to a registry is a fact of the daemon: content that returns to an older version must be published again to be
the newest. `server` serves this gateway's own, `cli` has the commands, `backup` and `doctor` what those programs need.
"""
