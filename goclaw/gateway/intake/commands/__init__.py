"""Slash commands, one file per family; the same for every channel. See `base`."""
