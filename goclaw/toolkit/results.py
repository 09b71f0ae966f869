"""Results of tools: the path that plugins import."""

from goclaw.tools.toolkit.results import *  # noqa: F403  # every public name, under its lasting path
