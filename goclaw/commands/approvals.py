"""`/approvals`: what was allowed for good with `always`; `/approvals remove N` has it asked again."""

from datetime import datetime

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.redact import printable
from goclaw.store.approvals import ApprovalRule

NONE = "Nothing is allowed for good: every call that has to be asked for is asked for."
USAGE = "/approvals lists what runs unasked; /approvals remove NUMBER has it asked again."
MAX_NUMBER = 19


async def _approvals(context: CommandContext) -> Reply:
    action, _, number = context.arguments.partition(" ")
    if not action or (action.lower() == "list" and not number):
        rules = await _visible(context)
        return Reply("\n".join(["Runs unasked:", *map(_line, rules), "", USAGE]) if rules else NONE)
    number = number.strip().removeprefix("#")
    if action.lower() != "remove" or not (number.isdecimal() and number.isascii() and len(number) <= MAX_NUMBER):
        return Reply(USAGE)
    if not any(rule.id == int(number) for rule in await _visible(context)):
        return Reply(f"There is no rule {number}. {USAGE}")
    await context.ports.rules.remove(int(number))
    return Reply(f"Removed: what rule {number} allowed is asked for again.")


async def _visible(context: CommandContext) -> list[ApprovalRule]:
    """Return the rules that a person may see and remove: their own, and an admin all."""
    is_admin = context.ports.access.is_admin(context.actor) and not context.actor.behalf
    rules = await context.ports.rules.all()
    return [rule for rule in rules if is_admin or (context.actor.key and rule.holder == context.actor.key)]


def _line(rule: ApprovalRule) -> str:
    made = f"{datetime.fromtimestamp(rule.made_at).astimezone():%Y-%m-%d}"
    return printable(f"{rule.id}. {rule.tool} for {rule.holder}: {rule.label} (by {rule.made_by}, {made})")


COMMAND = Command("approvals", "What runs unasked: /approvals, or /approvals remove NUMBER", _approvals)
