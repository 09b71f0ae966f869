"""Hooks: the path that plugins import."""

from goclaw.tools.hooks.base import *  # noqa: F403  # every public name, under its lasting path
