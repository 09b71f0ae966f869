"""Commands about people and their rights.

- `/help`: the commands that the sender may use.
- `/whoami`: the sender's identity and rights.
- `/blocked`: the people whose messages through the bot the sender has stopped; `/blocked remove N` undoes it.
- `/pair list|approve CODE [PRESET]|deny CODE`: strangers who ask to be let in (`auth.pairing`). For admins.
- `/pair invite PRESET NAME|revoke CODE|waiting`: invitations, each for one person (`auth.invitations`).
"""

from collections.abc import Mapping, Sequence

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.invitations import carry_out
from goclaw.common.auth.pairing import AS, Pairing, PairingRefused, PairingRequest, format_request
from goclaw.common.auth.presets import GUESTS
from goclaw.common.core.events import LOCAL, AnswerRefusal, Choice
from goclaw.errors import ConfigError
from goclaw.gateway.intake.commands.base import Command, CommandContext, Reply

FIRST_COMMANDS = ("help", "status", "stop", "clear", "compact", "model")
"""The commands that people need most, in this order: they stand first in `/help`, without a heading."""

GROUPS: Mapping[str, Sequence[str]] = {
    "Conversation": ("start", "new", "cleartool", "context", "sessions", "forget"),
    "Running turn": ("pause", "resume", "queue"),
    "Approvals": ("mode", "approve", "deny", "approvals", "guard"),
    "Agents and tools": ("agent", "agents", "tools", "tool"),
    "Time": ("remind", "schedule", "heartbeat"),
    "Information": ("usage", "memory", "whoami", "blocked"),
    "Administration": ("pair",),
}
"""The headings of `/help` and the commands below each."""

OTHER = "Other"
"""The heading of the commands that have no other: prompts of MCP servers, and agents with a command of their own."""
PAIR_USAGE = (
    "Send /pair list, /pair approve CODE, /pair approve CODE child, /pair deny CODE, /pair invite child NAME, /pair "
    "waiting or /pair revoke CODE."
)
PAIRING_OFF = "Pairing is off: strangers get no answer. Set `pairing.enabled` in the configuration to turn it on."


async def _help(context: CommandContext) -> Reply:
    lines = {info.name: f"/{info.name} - {info.summary}" for info in context.gateway.commands(context.actor)}
    blocks: list[list[str]] = []
    for heading, names in {"Available commands:": FIRST_COMMANDS, **GROUPS}.items():
        found = [lines.pop(name) for name in names if name in lines]
        if found or not blocks:
            blocks.append([heading, *found])
    if lines:
        blocks.append([OTHER, *lines.values()])
    return Reply("\n\n".join("\n".join(block) for block in blocks))


async def _whoami(context: CommandContext) -> Reply:
    ports, actor = context.ports, context.actor
    user = ports.schedules.users.get(actor.key)
    # A terminal says the name of a login, which several people may use.
    given = actor.name if context.inbound.address.channel != LOCAL else ""
    name = (user.name if user else "") or given
    lines = [f"You are {f'{name} ({actor.key})' if name else actor.key}."]
    if ports.access.authorize(actor, "command.admin", "whoami").allowed:
        lines.append(f"Session: {context.session}")
    return Reply("\n".join([*lines, ports.reports.rights(actor, context.session)]))


BLOCKED_USAGE = "/blocked remove NUMBER lets them ask again."


async def _manage_stops(context: CommandContext) -> Reply:
    others, actor = context.ports.schedules.scheduler.others, context.actor
    stopped = await others.list_stops(actor, context.inbound.address)
    order, _, number = context.arguments.partition(" ")
    if not order:
        lines = [f"{number}. {others.describe(pair)}" for number, pair in enumerate(stopped, 1)]
        return Reply(
            "\n".join(["These people may not send you messages through me:", *lines, "", BLOCKED_USAGE])
            if lines
            else "You have stopped nobody's messages."
        )
    if order.lower() != "remove" or number.strip() not in map(str, range(1, len(stopped) + 1)):
        return Reply(f"/blocked lists the people whose messages you have stopped. {BLOCKED_USAGE}")
    pair = stopped[int(number) - 1]
    await others.unblock(actor, pair)
    return Reply(f"{others.describe(pair)} may ask again to send you messages.")


BLOCKED = Command(
    "blocked", "List whose messages you have stopped: /blocked [remove NUMBER]", _manage_stops, anywhere=True
)


async def _pair(context: CommandContext) -> Reply:
    ports, actor, pairing = context.ports, context.actor, context.ports.entrances.pairing
    # An actor on behalf of others is no person who could mean it.
    if actor.behalf or not ports.access.authorize(actor, "command.admin", "pair").allowed:
        return Reply("Only admins can manage pairing requests.", refusal=AnswerRefusal.GONE)
    if context.inbound.address.reply_to is not None or ports.access.is_group(context.session):
        return Reply("Other people can read this chat. Send /pair in our private chat.", refusal=AnswerRefusal.INVALID)
    order, _, code = context.arguments.partition(" ")
    if pairing and order.lower() in ("invite", "revoke", "waiting"):
        return await _invite(context, pairing, order.lower(), code)
    if pairing is None or not pairing.enabled:
        return Reply(PAIRING_OFF, refusal=AnswerRefusal.INVALID)
    try:
        match order.lower():
            case "list" | "":
                return Reply(await _requests(context, pairing) or "There are no pairing requests.")
            case "approve" if code:
                code, _, preset = code.partition(" ")
                asking = await pairing.approve(actor, code, preset.strip().lower())
                role = preset.strip().lower() or pairing.config.pairing.role
                return _let_in(asking, role, context.inbound.address.channel)
            case "deny" if code:
                return Reply(f"Refused {(await pairing.deny(actor, code)).key}, who gets no new code for a day.")
    except PairingRefused as refused:
        return Reply(str(refused), refusal=AnswerRefusal.GONE)
    return Reply(PAIR_USAGE, refusal=AnswerRefusal.INVALID)


async def _requests(context: CommandContext, pairing: Pairing) -> str:
    waiting = [format_request(each, context.ports.clock.now()) for each in await pairing.list()]
    return "\n".join(["Pairing requests:", *waiting]) if waiting else ""


async def _invite(context: CommandContext, pairing: Pairing, order: str, rest: str) -> Reply:
    """Make, list or revoke invitations; people who wait to be let in are listed with them."""
    try:
        said = await carry_out(pairing.facts, order, rest.strip(), context.ports.clock.now())
    except ConfigError as error:
        return Reply(f"Not done: {error}.", refusal=AnswerRefusal.INVALID)
    if order == "waiting":
        invited = f"Invitations:\n{said}" if said else ""
        return Reply("\n".join(filter(None, (await _requests(context, pairing), invited))) or "Nobody is waiting.")
    context.ports.audit(AuditEntry(f"invitation.{order}", rest[:80], context.actor, rule="command.admin", result="ok"))
    return Reply(said)


def _let_in(asking: PairingRequest, role: str, channel: str) -> Reply:
    """Say what a person may do now, with a button for each preset that an admin may mean instead."""
    key, number = asking.key, asking.key.partition(":")[2]
    means = f" as {role}: {GUESTS[role].about}" if role in GUESTS else f" with the role {role}"
    return Reply(
        f"{key} may now talk to me in private chats, not in groups,{means}. The entry is in users.json. "
        f"`goclaw users set {key} --preset NAME` changes it ({', '.join(GUESTS)}); so do the buttons in a chat.",
        choices=tuple(Choice(name, f"{AS}{number}", name) for name in GUESTS if asking.channel == channel),
    )


HELP = Command("help", "Show available commands", _help, anywhere=True)
WHOAMI = Command("whoami", "Show your identity and permissions", _whoami, anywhere=True)
PAIR = Command(
    "pair", "Manage pairing requests: /pair list|approve|deny (admins)", _pair, for_admins=True, anywhere=True
)
