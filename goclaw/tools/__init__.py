"""What the agent can do: the toolkit, built-in and declared tools, hooks, MCP, the sandbox, registries."""
