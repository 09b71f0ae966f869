"""The composition root: the only room that knows every part. Opens them in order, closes them in reverse."""

from goclaw.app.environment import Environment, open_environment
from goclaw.app.opening import open_app
from goclaw.app.parts import App, Foundation
from goclaw.app.shutdown import GRACE_SECONDS

__all__ = ["GRACE_SECONDS", "App", "Environment", "Foundation", "open_app", "open_environment"]
