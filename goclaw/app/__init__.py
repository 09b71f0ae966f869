"""The composition root, the only room that knows every part: it opens them in order and closes them in reverse.

`sessions` builds the parts of sessions. `shutdown` is the order in which the daemon ends; `goclaw.cli.daemon` bounds
how long that may take. `ending_tasks` reports finished background tasks to their chats, `prompting` makes slash
commands of the prompts of MCP servers, and `publishing` starts the publishing loop only where something is published
and while the MCP server listens.

Every background task has a parent from `goclaw.supervise`, which lies below `users` and `store` because they run tasks
themselves. It is no task group inside a context manager: that would wrap every error of the block in a group.
"""

from goclaw.app.environment import Environment, open_environment
from goclaw.app.opening import open_app
from goclaw.app.parts import App, Foundation
from goclaw.app.shutdown import GRACE_SECONDS

__all__ = ["GRACE_SECONDS", "App", "Environment", "Foundation", "open_app", "open_environment"]
