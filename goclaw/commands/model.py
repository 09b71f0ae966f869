"""`/model [NAME]`: show which model answers in this session, or choose another one.

All users may choose among the configured models for a session of their own; any other model uses another person's money
or machine, and is for admins.
"""

import difflib
from collections.abc import Sequence

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.errors import ConfigError
from goclaw.sessions.models import AvailableModel

DEFAULT = "default"
NOT_YOURS = "Only the person whose conversation this is, or an admin, can choose its model."
MAX_SHOWN = 30


async def _model(context: CommandContext) -> Reply:
    if not context.arguments:
        return Reply(await _told(context))
    access, actor = context.ports.access, context.actor
    if not access.authorize(actor, "session.own", context.session).allowed:
        return Reply(NOT_YOURS)
    models = context.ports.models
    choices, _ = await models.choices()
    wanted = "" if context.arguments.lower() == DEFAULT else _named(context.arguments, choices)
    is_configured = any(choice.spec == wanted and choice.configured for choice in choices)
    if wanted and not is_configured and not access.authorize(actor, "command.admin", "model").allowed:
        allowed = ", ".join(choice.spec for choice in choices if choice.configured) or "none but the default"
        return Reply(f"Only admins can choose a model that is not in the configuration. You can choose: {allowed}.")
    try:
        await models.choose(context.session, wanted)
    except ConfigError as error:
        return Reply(f"{error}{_hint(wanted, choices)}")
    if not wanted:
        return Reply(f"This conversation follows the configuration again. {models.sentence}")
    return Reply(f"{wanted} answers in this conversation from the next request on. /model {DEFAULT} takes that back.")


async def _told(context: CommandContext) -> str:
    models, session = context.ports.models, context.session
    chosen = await models.chosen(session)
    lines = [f"{chosen} was chosen for this conversation by /model." if chosen else models.sentence]
    if refusal := models.refusal(chosen):
        lines.append(f"It cannot be opened: {refusal}")
    try:
        agent = await models.agent(session)
    except ConfigError:
        return "\n".join(lines)
    if chosen and agent.spec != chosen:
        lines.append(f"{agent.spec} answers in its place.")
    choices, keyed = await models.choices()
    if behind := [spec for spec in await models.behind(session) if spec != agent.spec]:
        lines.append(f"If it fails: {', then '.join(behind)}.")
    is_admin = context.ports.access.authorize(context.actor, "command.admin", "model").allowed
    others = [choice for choice in choices if choice.spec != agent.spec and (choice.configured or is_admin)]
    if others:
        lines += ["", "Others that could answer:", *(f"- {each.spec} ({each.why})" for each in others[:MAX_SHOWN])]
    if keyed and is_admin:
        lines += ["", f"There are keys for {', '.join(keyed)}: name a model as provider:name."]
    back = f", back with /model {DEFAULT}" if chosen else ""
    return "\n".join([*lines, "", f"Choose with /model PROVIDER:NAME{back}."])


def _named(text: str, choices: Sequence[AvailableModel]) -> str:
    """Return the full name of a model; a known one may go without its provider."""
    full = [choice.spec for choice in choices if choice.spec == text]
    short = [choice.spec for choice in choices if choice.spec.partition(":")[2] in (text, f"{text}:latest")]
    return [*full, *short, text][0]


def _hint(wanted: str, choices: Sequence[AvailableModel]) -> str:
    close = difflib.get_close_matches(wanted, [choice.spec for choice in choices], n=1)
    return f" Did you mean {close[0]}?" if close else ""


COMMAND = Command("model", "Show or choose the model that answers: /model [NAME]", _model)
