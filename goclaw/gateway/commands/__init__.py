"""Slash commands, one file each; the same for every channel. See `base`."""
