"""The specification of a tool: the path that plugins import."""

from goclaw.common.specs import *  # noqa: F403  # every public name, under its lasting path
