"""`/agents`: the agents that can answer the sender, and by which command each is asked."""

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.errors import AccessDenied, ConfigError


async def _agents(context: CommandContext) -> Reply:
    agents_for = context.ports.agents_for
    listed = agents_for.listed(context.actor)
    if not listed:
        return Reply("No agent may answer you.")
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
    return Reply("\n".join([*lines, "", "/agent NAME lets one answer in this conversation."]))


COMMAND = Command("agents", "List the agents that can answer you", _agents)
