"""Names in users.json and in the configuration that nothing answers to, with the names probably meant.

They are no errors: a tool may come with a plugin that is not installed, or from a server that is not there yet. What is
misspelt allows nothing.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from goclaw.common.auth.presets import GUESTS
from goclaw.common.auth.users import User
from goclaw.common.config.agents import GENERAL
from goclaw.common.config.exports import is_built_in
from goclaw.common.config.keys import what_helps
from goclaw.common.config.mcp import pin_tag
from goclaw.common.config.policies import ADMIN, USER
from goclaw.common.config.schema import Config
from goclaw.common.core.catalog import ALIASES
from goclaw.common.core.files import shown_path
from goclaw.common.core.selection import NOT, SET, TAG, Toolsets
from goclaw.common.core.tool_ids import agent_of, short_name
from goclaw.common.specs import MCP

Faults = Callable[[str, Mapping[str, Any]], Sequence[str]]
"""A function that returns the faults of some arguments of a tool."""


def warnings(
    config: Config,
    users: Sequence[User],
    tools: Mapping[str, frozenset[str]],
    commands: Collection[str],
    faults: Faults = lambda name, given: (),
    agents: Collection[str] = (),
) -> Iterator[str]:
    """Yield a line for each name that nothing answers to, and for each fixed argument that its tool refuses.

    `tools`: each that there is, with its tags; `agents`: those that packages add.
    """
    tools = {**tools, **_find_exports(config), **_of_servers(config)}
    commands = {*commands, *(route.command for route in config.agents.routes if route.command)}
    path, roles = shown_path(config.users_path), {ADMIN, USER, *GUESTS, *config.roles}
    known = _Known(tools, Toolsets(config.toolsets).names)
    for user in users:
        for name in sorted(user.roles - roles):
            yield f"{path}: users.{user.key}.roles: unknown role `{name}`{what_helps(name, roles)}; it allows nothing"
        yield from known.missed_by(f"{path}: users.{user.key}.allowedTools", sorted(user.allowed_tools or ()))
        yield from (f"{path}: users.{user.key}.roles: {line}" for line in _contradictions(config, user))
    for place, selection in _selections(config):
        yield from known.missed_by(place, selection)
    for role, settings in config.roles.items():
        yield from known.missed_by(f"roles.{role}.inputs", list(settings.inputs))
        for name, given in settings.inputs.items():
            lines = faults(ALIASES.get(name, name), given)
            yield from (f"roles.{role}.inputs.{name}: {line}; every such call fails" for line in lines)
        for name in sorted(set(settings.commands or ()) - set(commands)):
            if not name.startswith(MCP):  # prompts of MCP servers are not known yet
                yield f"roles.{role}.commands: unknown command `{name}`{what_helps(name, commands)}"
    yield from _unknown_people(config, roles, {user.key for user in users})
    answering = {*config.agents.everyone, GENERAL, *agents}
    for place, name in _agents(config):
        if name not in answering:
            yield f"{place}: unknown agent `{name}`{what_helps(name, answering)}"


def _unknown_people(config: Config, roles: Collection[str], keys: Collection[str]) -> Iterator[str]:
    """Yield a line for each unknown role that sees an MCP server, and each unknown user of a schedule or webhook."""
    for place, settings in config.mcp_servers.values():
        for name in sorted(set(settings.roles) - set(roles)):
            yield f"{place}.roles: unknown role `{name}`{what_helps(name, roles)}; nobody has it"
    for name, schedule in config.schedules.items():
        if schedule.user and schedule.user not in keys:
            yield f"schedules.{name}.user: {schedule.user} is not in users.json and may do nothing; add the entry"
    for name, hook in config.webhooks.items():
        if hook.user not in keys:
            where = shown_path(config.users_path)
            yield f"webhooks.{name}.user: {hook.user} is not in {where}; GoClaw refuses its calls"


def _of_servers(config: Config) -> Mapping[str, frozenset[str]]:
    """Return tools that exist as soon as MCP servers are configured, whatever those offer."""
    if not (servers := config.mcp_servers):
        return {}
    own = [tag for _, settings in servers.values() for tag in settings.tags]
    own += [pin_tag(name, tool) for name, pinned in config.tools.pinned.items() for tool in pinned.tools]
    tags = frozenset({"mcp", *(f"mcp-{name}" for name in servers), *own})
    return dict.fromkeys(("list_mcp_resources", "read_mcp_resource"), tags)


class _Known:
    """The names that a selection may use."""

    def __init__(self, tools: Mapping[str, frozenset[str]], sets: Collection[str]) -> None:
        self._tools = tools
        self._tags = frozenset(tag for tags in tools.values() for tag in tags)
        self._sets = sets

    def missed_by(self, place: str, selection: Sequence[str]) -> Iterator[str]:
        """Yield a line for each part that names nothing."""
        for part in selection:
            name = part.removeprefix(NOT)
            if name.startswith(TAG):
                yield from self._report_unknown(place, "tag", name.removeprefix(TAG), self._tags)
            elif name.startswith(SET):
                yield from self._report_unknown(place, "set", name.removeprefix(SET), self._sets)
            elif part == "*":
                yield f"{place}: unknown tool `*`; leave `{place.rpartition('.')[2]}` out to allow every tool"
            elif not name.startswith(MCP):  # servers come later, and say what they have
                yield from self._report_unknown(place, "tool", name, self._tools)

    def _report_unknown(self, place: str, kind: str, name: str, known: Collection[str]) -> Iterator[str]:
        if name in known or (kind == "tool" and ALIASES.get(name) in known):
            return
        own = [each for each in known if kind == "tool" and short_name(each) == name]
        if not own:
            yield f"{place}: unknown {kind} `{name}`{what_helps(name, known)}"
        elif (len(own) > 1 or is_built_in(name)) and not any(_is_of(place, agent_of(each)) for each in own):
            why = "a built-in tool that is off" if is_built_in(name) else "a tool of several agents"
            yield f"{place}: `{name}` is {why}; name one: {', '.join(sorted(own))}"


def _is_of(place: str, agent: str) -> bool:
    """Whether names at a place of the configuration are first of all those of an agent's own tools."""
    return place.startswith((f"tools.sets.{agent}/", f"agents.{agent}.exports.", f"agents.kinds.{agent}.exports."))


def _selections(config: Config) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield all selections of tools in the configuration."""
    policy = config.policy
    for role, settings in config.roles.items():
        yield f"roles.{role}.tools", settings.tools or ()
        yield f"roles.{role}.always_ask", settings.always_ask
    yield "tools.disabled", config.tools.disabled
    for name, selection in config.tools.sets.items():
        yield f"tools.sets.{name}", selection
    for name, webhook in config.webhooks.items():
        yield f"webhooks.{name}.tools", webhook.tools or ()
    yield "policy.auto_allow", policy.auto_allow
    yield "policy.always_ask", policy.always_ask
    yield "policy.deny_ends_turn", policy.deny_ends_turn
    yield "pairing.allowed_tools", config.pairing.allowed_tools or ()
    for name, agent in config.agents.everyone.items():
        place = "agents.main" if name == "main" else f"agents.kinds.{name}"
        yield f"{place}.tools", agent.tools or ()
        for toolset, export in agent.exports.items():
            yield f"{place}.exports.{toolset}.include", export.include or ()
            for tool, offered in export.tools.items():
                if offered.passthrough:
                    yield f"{place}.exports.{toolset}.tools.{tool}.passthrough.tool", (offered.passthrough.tool,)
    for name, schedule in config.schedules.items():
        yield f"schedules.{name}.tools", schedule.tools or ()
    for index, hook in enumerate(config.hooks):
        yield f"hooks[{index}].match", hook.match


def _find_exports(config: Config) -> dict[str, frozenset[str]]:
    """Return the tools that agents offer, with their tags."""
    return {
        name: frozenset({"agents", *export.tags, *tool.tags})
        for exports in config.agents.exports.values()
        for export in exports.values()
        for name, tool in export.tools.items()
    }


def _agents(config: Config) -> Iterator[tuple[str, str]]:
    """Yield all names of agents in the configuration."""
    for index, route in enumerate(config.agents.routes):
        yield f"agents.routes[{index}].agent", route.agent
    yield from ((f"schedules.{name}.agent", each.agent) for name, each in config.schedules.items() if each.agent)
    for role, settings in config.roles.items():
        yield from ((f"roles.{role}.agents", name) for name in settings.agents or ())
    for name, webhook in config.webhooks.items():
        if webhook.agent:
            yield f"webhooks.{name}.agent", webhook.agent


def _contradictions(config: Config, user: User) -> Iterator[str]:
    """Yield arguments that two roles of one person fix differently: such a call is refused."""
    for one, other in combinations(sorted(user.roles & config.roles.keys()), 2):
        first, second = config.roles[one].inputs, config.roles[other].inputs
        for tool in sorted(first.keys() & second.keys()):
            for argument in sorted(first[tool].keys() & second[tool].keys()):
                if first[tool][argument] != second[tool][argument]:
                    yield f"{one} and {other} fix {tool}.{argument} differently; the tool is refused"
