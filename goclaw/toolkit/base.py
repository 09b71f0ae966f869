"""`@tool` and the context of a call: the path that plugins import."""

from goclaw.tools.toolkit.base import *  # noqa: F403  # every public name, under its lasting path
from goclaw.tools.toolkit.services import Reminder as Reminder
from goclaw.tools.toolkit.services import ReminderTier as ReminderTier
