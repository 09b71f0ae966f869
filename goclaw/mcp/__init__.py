"""The Model Context Protocol: what is common to both of its ends."""
