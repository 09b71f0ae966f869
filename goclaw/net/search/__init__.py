"""Web search for the agent: one file per provider. It knows no tool, and fetches no page."""
