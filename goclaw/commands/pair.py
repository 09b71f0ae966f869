"""`/pair list|approve CODE|deny CODE`: strangers who asked to be let in (see `pairing`). For admins, in private."""

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.pairing import PairingRefused, shown

USAGE = "Say /pair list, /pair approve CODE or /pair deny CODE."
OFF = "Pairing is off: strangers are not answered. `pairing.enabled` in the configuration switches it on."
NOT_YOURS = "Only an admin can let people in."
ELSEWHERE = "Others read here, too. Tell me in our private chat."


async def _pair(context: CommandContext) -> Reply:
    ports, actor, pairing = context.ports, context.actor, context.ports.pairing
    # An actor on behalf of others is no person who could mean it.
    if actor.behalf or not ports.access.authorize(actor, "command.admin", "pair").allowed:
        return Reply(NOT_YOURS)
    if context.inbound.address.reply_to is not None or ports.access.is_group(context.session):
        return Reply(ELSEWHERE)
    if pairing is None or not pairing.enabled:
        return Reply(OFF)
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
    return Reply(USAGE)


COMMAND = Command("pair", "Let strangers in by their code: /pair list|approve|deny (admins)", _pair, for_admins=True)
