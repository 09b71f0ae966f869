"""The composition root, the only room that knows every part: it opens them in order and closes them in reverse.

`shutdown` is the order in which the daemon ends; `goclaw.cli.daemon` bounds how long that may take. `ending_tasks`
reports finished background tasks to their chats, `prompting` makes slash commands of the prompts of MCP servers, and
`publishing` starts the publishing loop only where something is published and while the MCP server listens.
"""

from goclaw.app.environment import Environment, open_environment
from goclaw.app.opening import open_app
from goclaw.app.parts import App, Foundation
from goclaw.app.shutdown import GRACE_SECONDS

__all__ = ["GRACE_SECONDS", "App", "Environment", "Foundation", "open_app", "open_environment"]
