"""The composition root, the only room that knows every part: it opens them in order and closes them in reverse.

`sessions` builds the parts of sessions. `running` has the order of the daemon's start and end;
`cli.daemon` bounds how long the end may take. `registries` starts the publishing loop only where something is
published and while the MCP server listens.

Every background task has a parent from `core.supervise`, which lies below `auth` and `store` because they run
tasks themselves. It is no task group inside a context manager: that would wrap every error of the block in a group.
"""

from goclaw.program.app.opening import open_app
from goclaw.program.app.parts import App, Environment, open_environment
from goclaw.program.app.running import GRACE_SECONDS

__all__ = ["GRACE_SECONDS", "App", "Environment", "open_app", "open_environment"]
