"""Commands about the agent and the model that answer, and their tools.

- `/agents`: the agents that can answer the sender, and the command to ask each.
- `/agent [NAME]`: which agent answers in this session, and another one in its place.
- `/model [NAME]`: show which model answers in this session, or choose another one. All users may choose among the
  configured models for a session of their own; any other model uses another person's money or machine, and is for
  admins.
- `/tools`, `/tools NAME`: the agent's abilities for the sender, and everything about one of its tools.
- `/tool NAME {json}`: try a tool without an AI. Only the demo model understands it.
"""

import difflib
import json
from collections.abc import Sequence

from goclaw.common.config.keys import closest
from goclaw.common.core.events import Actor
from goclaw.common.core.redact import mask
from goclaw.common.specs import TOOL_CALL, TOOL_SEARCH
from goclaw.conversation.sessions.models import AvailableModel
from goclaw.errors import AccessDenied, ConfigError, UnknownTool
from goclaw.gateway.intake.commands.base import Command, CommandContext, CommandPorts, Reply
from goclaw.llm.open import DEMO
from goclaw.llm.served import NO_TOOLS
from goclaw.tools.toolkit.tool_docs import ListedTool, details, fault_lines, overview

DEFAULT_AGENT = "default"
DEFAULT_MODEL = "default"
MAX_MODELS = 30
LEGEND = "The risk of a call is in brackets. /tools NAME describes a tool and says when it asks for approval."


async def _agents(context: CommandContext) -> Reply:
    agents_for = context.ports.sessions.choices.agents
    listed = agents_for.list_for(context.actor)
    if not listed:
        return Reply("No agent is available to you.")
    try:
        here = (await agents_for.of(context.actor, context.session)).kind.name
    except (AccessDenied, ConfigError):
        here = ""
    commands = agents_for.commands(context.actor)
    lines = []
    for kind in listed:
        asked = [f"/{command}" for command, agent in commands.items() if agent == kind.name]
        notes = [*(["answers here"] if kind.name == here else []), *asked]
        about = " ".join(kind.settings.description.split())
        line = f"- {kind.name}: {about}" if about else f"- {kind.name}"
        lines.append(f"{line} ({', '.join(notes)})" if notes else line)
    return Reply("\n".join([*lines, "", "/agent NAME switches this conversation to one of them."]))


async def _agent(context: CommandContext) -> Reply:
    agents_for, wanted = context.ports.sessions.choices.agents, context.arguments
    if not wanted:
        return Reply(await _agent_here(context))
    if not context.ports.access.authorize(context.actor, "session.own", context.session).allowed:
        return Reply("Only the owner of this conversation or an admin can choose its agent.")
    name = "" if wanted.lower() == DEFAULT_AGENT else wanted
    try:
        await agents_for.choose(context.session, name, context.actor)
    except AccessDenied as error:
        known = [kind.name for kind in agents_for.list_for(context.actor)]
        meant = closest(wanted[:40], known)
        hint = f" Did you mean {meant}?" if meant else f" Available: {', '.join(known) or 'none'}."
        return Reply(f"{error}{hint}")
    if name:
        return Reply(
            f"{name} answers in this conversation, starting with the next message. /agent {DEFAULT_AGENT} undoes this."
        )
    return Reply(f"This conversation uses the configured agent again. {await _agent_here(context)}")


async def _agent_here(context: CommandContext) -> str:
    agents_for = context.ports.sessions.choices.agents
    chosen = await agents_for.choice_for(context.session)
    try:
        found = await agents_for.of(context.actor, context.session)
    except (AccessDenied, ConfigError) as error:
        return str(error)
    why = f" ({found.why})" if found.why else ""
    lines = [f"{found.kind.name} answers here{why}."]
    if chosen and chosen != found.kind.name:
        lines.append(f"{chosen}, chosen with /agent, no longer exists or is not available to you.")
    return " ".join([*lines, "/agents lists them all, /agent NAME switches."])


async def _model(context: CommandContext) -> Reply:
    if not context.arguments:
        return Reply(await _model_here(context))
    access, actor = context.ports.access, context.actor
    if not access.authorize(actor, "session.own", context.session).allowed:
        return Reply("Only the owner of this conversation or an admin can choose its model.")
    models = context.ports.sessions.models
    choices, _ = await models.choices()
    wanted = "" if context.arguments.lower() == DEFAULT_MODEL else _find_model(context.arguments, choices)
    is_configured = any(choice.spec == wanted and choice.configured for choice in choices)
    if wanted and not is_configured and not access.authorize(actor, "command.admin", "model").allowed:
        allowed = ", ".join(choice.spec for choice in choices if choice.configured) or "only the default"
        return Reply(f"Only admins can choose a model that is not in the configuration. You can choose: {allowed}.")
    try:
        await models.choose(context.session, wanted)
    except ConfigError as error:
        close = difflib.get_close_matches(wanted, [choice.spec for choice in choices], n=1)
        return Reply(f"{error} Did you mean {close[0]}?" if close else str(error))
    if not wanted:
        return Reply(f"This conversation uses the configured model again. {models.sentence}")
    return Reply(
        f"{wanted} answers in this conversation, starting with the next request. /model {DEFAULT_MODEL} undoes this."
    )


async def _model_here(context: CommandContext) -> str:
    models, session = context.ports.sessions.models, context.session
    chosen = await models.choice_for(session)
    lines = [f"You chose {chosen} for this conversation with /model." if chosen else models.sentence]
    if refusal := models.refusal(chosen):
        lines.append(f"It cannot be used: {refusal}")
    try:
        agent = await models.agent(session)
    except ConfigError:
        return "\n".join(lines)
    if chosen and agent.spec != chosen:
        lines.append(f"{agent.spec} answers instead.")
    if models.served.of(agent.spec).tools is False:
        lines.append(NO_TOOLS.format(spec=agent.spec))
    choices, keyed = await models.choices()
    if behind := [spec for spec in await models.behind(session) if spec != agent.spec]:
        lines.append(f"If it fails: {', then '.join(behind)}.")
    is_admin = context.ports.access.authorize(context.actor, "command.admin", "model").allowed
    others = [choice for choice in choices if choice.spec != agent.spec and (choice.configured or is_admin)]
    if others:
        lines += ["", "Other available models:", *(f"- {each.spec} ({each.why})" for each in others[:MAX_MODELS])]
    if keyed and is_admin:
        lines += ["", f"You have API keys for {', '.join(keyed)}: name any of their models as provider:name."]
    back = f"; /model {DEFAULT_MODEL} undoes it" if chosen else ""
    return "\n".join([*lines, "", f"Choose with /model PROVIDER:NAME{back}."])


def _find_model(text: str, choices: Sequence[AvailableModel]) -> str:
    """Return the full name of a model; a known one may go without its provider."""
    full = [choice.spec for choice in choices if choice.spec == text]
    short = [choice.spec for choice in choices if choice.spec.partition(":")[2] in (text, f"{text}:latest")]
    return [*full, *short, text][0]


async def _tools(context: CommandContext) -> Reply:
    listing, name = context.ports.reports.tools, context.arguments
    if name:
        found = listing.find(name, context.actor) or listing.find(name.lower(), context.actor)
        return Reply(_all_about(found, context), markdown=True) if found else Reply(_unknown_tool(context))
    # By these two a model finds the others; a person has the whole list here.
    listed = [shown for shown in listing.of(context.actor) if shown.name not in (TOOL_SEARCH, TOOL_CALL)]
    blocks = [overview(listed), LEGEND] if listed else ["No tools are available to you."]
    # Faults are for people who can mend them, and in a group others read along.
    alone = context.inbound.address.reply_to is None
    oversees = context.ports.access.authorize(context.actor, "command.admin", "tools").allowed
    if alone and oversees and (faults := fault_lines(listing.faults)):
        blocks.append("\n".join(["**Not working**", "", *(f"- {line}" for line in faults)]))
    return Reply("\n\n".join(blocks), markdown=True)


def _all_about(shown: ListedTool, context: CommandContext) -> str:
    fixed = context.ports.access.authorize(context.actor, "tool.use", shown.name).input or {}
    lines = [f"- `{name}` is always `{mask(json.dumps(value, ensure_ascii=False))}`" for name, value in fixed.items()]
    yours = ["\n".join(["In your calls these values are fixed:", "", *lines])] if lines else []
    offered = [f"It is {shown.availability}."] if shown.availability else []
    return "\n\n".join([details(shown.tool, shown.origin), *offered, *yours])


def _unknown_tool(context: CommandContext) -> str:
    """Return the same for a tool that does not exist and for one that is not the sender's."""
    meant = closest(context.arguments, [shown.name for shown in context.ports.reports.tools.of(context.actor)])
    return f"{UnknownTool(context.arguments)}." + (f" Did you mean /tools {meant}?" if meant else " See /tools.")


async def _tool(context: CommandContext) -> Reply:
    ports = context.ports
    try:
        model = await ports.sessions.models.agent(context.session)
    except ConfigError as error:
        return Reply(str(error))
    if model.spec != DEMO:
        return Reply("/tool works with the demo model only. Ask the assistant in your own words instead.")
    await ports.engine.submit(context.inbound)
    return Reply(turn=context.inbound.id)


def _have_choice(ports: CommandPorts, actor: Actor) -> bool:
    return len(ports.sessions.choices.agents.list_for(actor)) > 1


def _is_demo(ports: CommandPorts, actor: Actor) -> bool:
    return ports.sessions.models.is_demo


AGENTS = Command("agents", "List the agents available to you", _agents, serves=_have_choice)
AGENT = Command("agent", "Show or switch the agent: /agent [NAME]", _agent, serves=_have_choice)
MODEL = Command("model", "Show or switch the model: /model [NAME]", _model)
TOOLS = Command("tools", "List the available tools, or describe one: /tools [NAME]", _tools, anywhere=True)
TOOL = Command(
    "tool", 'Run a tool directly (demo model only): /tool read {"path": "AGENTS.md"}', _tool, serves=_is_demo
)
