"""Commands about people and their rights.

- `/help`: the commands that the sender may use.
- `/whoami`: who the gateway takes the sender for, and with which rights.
- `/pair list|approve CODE|deny CODE`: strangers who asked to be let in (see `auth.pairing`). For admins, in private.
"""

from goclaw.auth.pairing import PairingRefused, shown
from goclaw.gateway.commands.base import Command, CommandContext, Reply

FIRST_COMMANDS = ("help", "status", "stop", "clear", "compact", "model")
"""The commands that people need most, in this order; all others follow as the catalogue has them."""


async def _help(context: CommandContext) -> Reply:
    visible = {info.name: info for info in context.gateway.commands(context.actor)}
    ordered = {name: visible[name] for name in FIRST_COMMANDS if name in visible} | visible
    lines = [f"/{info.name} - {info.summary}" for info in ordered.values()]
    return Reply("\n".join(["Available commands:", *lines]))


HELP = Command("help", "Show available commands", _help)


async def _whoami(context: CommandContext) -> Reply:
    rights = context.ports.rights(context.actor)
    return Reply(f"You are {context.actor.key}.\nSession: {context.session}\n{rights}")


WHOAMI = Command("whoami", "Show who I take you for, and what you may do", _whoami)


PAIR_USAGE = "Say /pair list, /pair approve CODE or /pair deny CODE."
PAIRING_OFF = "Pairing is off: strangers are not answered. `pairing.enabled` in the configuration switches it on."
PAIR_NOT_YOURS = "Only an admin can let people in."
PAIR_ELSEWHERE = "Others read here, too. Tell me in our private chat."


async def _pair(context: CommandContext) -> Reply:
    ports, actor, pairing = context.ports, context.actor, context.ports.pairing
    # An actor on behalf of others is no person who could mean it.
    if actor.behalf or not ports.access.authorize(actor, "command.admin", "pair").allowed:
        return Reply(PAIR_NOT_YOURS)
    if context.inbound.address.reply_to is not None or ports.access.is_group(context.session):
        return Reply(PAIR_ELSEWHERE)
    if pairing is None or not pairing.enabled:
        return Reply(PAIRING_OFF)
    order, _, code = context.arguments.partition(" ")
    try:
        match order.lower():
            case "list" | "":
                waiting = [shown(each, ports.clock.now()) for each in await pairing.list()]
                return Reply(
                    "\n".join(["These ask to be let in:", *waiting]) if waiting else "Nobody asks to be let in."
                )
            case "approve" if code:
                asking = await pairing.approve(actor, code)
                return Reply(f"{asking.key} is let in: in private chats, not in groups (users.json has the entry).")
            case "deny" if code:
                return Reply(
                    f"{(await pairing.deny(actor, code)).key} is not let in, and gets no other code for a day."
                )
    except PairingRefused as refused:
        return Reply(str(refused))
    return Reply(PAIR_USAGE)


PAIR = Command("pair", "Let strangers in by their code: /pair list|approve|deny (admins)", _pair, for_admins=True)
