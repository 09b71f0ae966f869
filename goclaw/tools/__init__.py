"""The agent's tools: the toolkit, built-in and declared tools, hooks, MCP, the sandbox, registries."""
