"""Agents and tools declared in Python: the path that plugins import."""

from goclaw.tools.declare import *  # noqa: F403  # every public name, under its lasting path
