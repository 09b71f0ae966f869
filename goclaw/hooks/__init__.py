"""Lasting paths of `goclaw.tools.hooks`."""
