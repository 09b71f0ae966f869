"""Web search for the agent: `open` asks the configured one of `providers`. It knows no tool, and fetches no page."""
