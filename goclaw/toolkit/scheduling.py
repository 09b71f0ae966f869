"""The resources that a call uses: the path that plugins import."""

from goclaw.tools.toolkit.scheduling import *  # noqa: F403  # every public name, under its lasting path
