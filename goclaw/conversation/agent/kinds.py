"""The configured agents: kinds and `main`, the routes that select one of them to answer, and descriptions for people.

The kinds are those of `agents.kinds`, or a built-in one where there are none. Routing (`agents.routes`) is pure:
nothing here knows rights.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Any

from goclaw.common.config.agents import GENERAL, GENERAL_KIND, MAIN, AgentSettings, RouteSettings
from goclaw.common.config.exports import Exports, ExportSettings
from goclaw.common.config.schema import Config
from goclaw.common.core.events import Inbound
from goclaw.common.core.records import record
from goclaw.conversation.agent.limits import MAIN_POLICY, TurnRules, rules_of
from goclaw.errors import ToolError

AGENT_TOOL = "agent"
"""The tool that starts agents."""

ABOUT = """You are an agent that another agent has started for one task; no person reads what you write. The message
that you are given is the whole task: you know nothing of the conversation that it comes from, and nobody answers
questions unless you have a tool to ask with. Do the task with your tools, and end with an answer that stands for
itself: what you found or did, where (paths, lines), and what is left open or failed. The one that reads it sees nothing
else of your work."""
"""The prompt of a subagent beyond that of every agent."""


@record
class Kind:
    """An agent that can be started."""

    name: str
    settings: AgentSettings
    rules: TurnRules


@record
class Kinds:
    """All of them."""

    config: Config
    _known: Mapping[str, AgentSettings] = field(init=False)
    _exports: Mapping[str, Exports] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", dict(self.config.agents.kinds) or {GENERAL: GENERAL_KIND})
        object.__setattr__(self, "_exports", self.config.agents.exports)

    def find(self, name: str) -> Kind:
        """Return the kind with this name; empty: the only one, or `general`.

        Raises:
            ToolError: it is unknown; the message names the known ones.
        """
        known = self._known
        wanted = name or (next(iter(known)) if len(known) == 1 else GENERAL)
        if wanted not in known:
            what = f"there is no kind of agent {wanted[:80]!r}" if name else "say which kind of agent"
            raise ToolError(f"{what}: there are {', '.join(sorted(known))}")
        settings = known[wanted]
        place = f"agents.kinds.{wanted}.policy"
        return Kind(wanted, settings, rules_of(self.config.limits, settings.policy, place))

    def of(self, name: str) -> Kind | None:
        """Return the agent of exactly that name, `main` included."""
        if name == MAIN:
            main = self.config.agents.main
            return Kind(MAIN, main, rules_of(self.config.limits, main.policy, MAIN_POLICY))
        return self.find(name) if name in self._known else None

    @property
    def answering(self) -> list[str]:
        """The names of those that can answer people."""
        return [MAIN, *self.config.agents.kinds]

    def recursive(self, agents: "set[str]") -> list[str]:
        """Return the tools that would ask one of these agents to work for itself."""
        exports = self._exports
        return [
            tool
            for agent in sorted(agents & exports.keys())
            for export in exports[agent].values()
            for tool, settings in export.tools.items()
            if settings.passthrough is None
        ]

    def format_list(self, may: Callable[[str], bool]) -> str:
        """Return the list of kinds for the model; empty where there is no choice. `may`: whether one may be started."""
        known = {name: kind for name, kind in self._known.items() if may(name)}
        if not self.config.agents.kinds or not known:
            return ""
        lines = [f"- {name}: {' '.join(kind.description.split())}".rstrip(": ") for name, kind in known.items()]
        return "\n".join([f"Kinds of agents that the tool `{AGENT_TOOL}` starts:", *lines])


_COMMAND = re.compile(r"/([A-Za-z][A-Za-z0-9_]*)(?:@\w+)?(?:\s|$)")


def command_in(inbound: Inbound) -> str:
    """Return the slash command that a message begins with; empty: none. A forwarded message gives no command."""
    found = None if inbound.forwarded else _COMMAND.match(inbound.text.strip())
    return found.group(1).lower() if found else ""


def by_command(routes: Sequence[RouteSettings], command: str, user: str, places: Sequence[str]) -> RouteSettings | None:
    """Return the first route for a command of a user in a session or chat (`places`: its names)."""
    return next(
        (route for route in routes if command and route.command == command and _fits(route, user, places)), None
    )


def commands_of(routes: Sequence[RouteSettings], user: str) -> Iterator[tuple[str, str]]:
    """Yield the commands that lead a user to an agent, with its name, regardless of the place."""
    return ((route.command, route.agent) for route in routes if route.command and _fits_any(route.user, [user]))


def by_place(routes: Sequence[RouteSettings], user: str, places: Sequence[str]) -> RouteSettings | None:
    """Return the first route that needs no command."""
    return next((route for route in routes if route.command is None and _fits(route, user, places)), None)


def _fits(route: RouteSettings, user: str, places: Sequence[str]) -> bool:
    return _fits_any(route.user, [user]) and _fits_any(route.chat, places)


def _fits_any(patterns: Sequence[str], names: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def all_agents(kinds: Kinds) -> list[Kind]:
    """Return every agent, `main` first."""
    found = (kinds.of(name) for name in [*kinds.answering, *([] if kinds.config.agents.kinds else [GENERAL])])
    return [kind for kind in found if kind]


def agent_line(kind: Kind) -> str:
    """Return one of them in a list."""
    return f"{kind.name:16} {' '.join(kind.settings.description.split())}".rstrip()


def agent_details(kind: Kind, routes: list[RouteSettings]) -> str:
    """Return everything about one; `routes`: those that lead to it."""
    settings = kind.settings
    tools = "every tool" if settings.tools is None else ", ".join(settings.tools) or "none"
    lines = [
        kind.name,
        *([settings.description.strip()] if settings.description.strip() else []),
        "",
        f"Models: {', then '.join(settings.chain) or 'the chain in models.agent'}",
        f"Tools: {tools}",
        *(f"{name}: {text}" for name, text in kind.rules.lines()),
        *(f"Answers {_condition(route)}" for route in routes),
    ]
    for name, export in settings.exports.items():
        lines += ["", *_export_lines(name, export)]
    if settings.prompt.strip():
        lines += ["", "Instructions:", "", settings.prompt.strip()]
    return "\n".join(lines)


def agent_as_json(kind: Kind, routes: list[RouteSettings]) -> dict[str, Any]:
    """Return the same for programs."""
    known: dict[str, Any] = {"name": kind.name, **kind.settings.model_dump(mode="json")}
    return {**known, "routes": [route.model_dump(mode="json", exclude={"agent"}) for route in routes]}


def _condition(route: RouteSettings) -> str:
    parts = [
        f"/{route.command}" if route.command else "",
        f"for {', '.join(route.user)}" if route.user else "",
        f"in {', '.join(route.chat)}" if route.chat else "",
    ]
    return " ".join(filter(None, parts)) or "everybody without another route"


def _export_lines(name: str, export: ExportSettings) -> Iterator[str]:
    yield f"Exports {name}: {export.description}".rstrip(": ")
    for tool, settings in export.tools.items():
        through = f" (calls {settings.passthrough.tool})" if settings.passthrough else ""
        yield f"- {tool}: {' '.join(settings.description.split())}{through}"
    if export.include:
        yield f"- also {', '.join(export.include)}"
    if export.publish_to:
        yield f"- offered to {', '.join(export.publish_to)}"
