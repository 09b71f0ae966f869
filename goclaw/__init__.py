"""GoClaw: a chat-bot gateway daemon. Import the module you need; this package exports its version only."""

__version__ = "0.1.0"
