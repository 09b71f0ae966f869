"""Lasting paths of `goclaw.tools.toolkit`."""
