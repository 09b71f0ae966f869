"""Lasting paths of `goclaw.program.cli`."""
