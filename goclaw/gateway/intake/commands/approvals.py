"""Commands about approvals of tool calls.

- `/approve ID [always]`: let a tool call run that waits for it, and its like from now on.
- `/deny [ID]`: keep a tool call from running, or leave a question without an answer; alone, the only one that is open.
- `/approve CODE`, `/deny CODE`: let in the web page that shows this code, as oneself; or turn it away.
- `/approvals`: the permanent approvals, given with `always`; `/approvals remove N` removes one.
- `/guard`: what the agent has read here, and the files in which others may have written; `/guard clear PATH` makes one
  one's own again.
- `/mode [NAME]`: the agent's rights in this session without asking. See `sessions.modes`.
"""

from datetime import datetime
from typing import get_args

from goclaw.common.auth.access import own_session
from goclaw.common.auth.web_logins import LoginRefused, WebLogins, is_code
from goclaw.common.config.values import Mode
from goclaw.common.core.events import ALLOW, ALWAYS, Actor
from goclaw.common.core.redact import printable
from goclaw.conversation.agent.context.labels import window_content
from goclaw.conversation.sessions.modes import MEANINGS, Modes
from goclaw.durable.store.approvals import ApprovalRule
from goclaw.gateway.intake.commands.base import Command, CommandContext, CommandPorts, Reply
from goclaw.tools.approval.guard import describe

PAGE_FOR_OWNER = (
    "That page is open on another machine and would get all rights of the owner, because you are not in users.json. "
    "`goclaw web` creates a link for a page elsewhere; `goclaw users add` gives you rights of your own."
)
WHICH = 'Several questions are open. Press "Deny" below the one you mean, or send /deny ID.'
NO_RULES = "There are no permanent approvals: every call that needs approval asks."
APPROVALS_USAGE = "/approvals lists permanent approvals; /approvals remove NUMBER removes one."
MAX_NUMBER = 19
MAX_LISTED = 20
"""Labelled files in a list."""
GUARD_USAGE = "/guard clear PATH makes a file yours again; `.` means the whole workspace."
CONFIGURED = "configured"


async def _approve(context: CommandContext) -> Reply:
    if (logins := context.ports.entrances.logins) and is_code(context.arguments):
        return await _page(context, logins, is_welcome=True)
    question, _, more = context.arguments.partition(" ")
    if not question or more.strip().lower() not in ("", ALWAYS):
        return Reply("Which question? Send /approve ID with its ID, or /approve ID always if that is offered.")
    answer = ALWAYS if more else ALLOW
    answered = await context.gateway.decide(context.actor, question.lower(), answer, context.inbound.address)
    return Reply(answered.text, refusal=answered.refusal)


async def _deny(context: CommandContext) -> Reply:
    if (logins := context.ports.entrances.logins) and is_code(context.arguments):
        return await _page(context, logins, is_welcome=False)
    question = context.arguments.lower()
    if not question:
        waiting = [each for each in await context.gateway.answerable(context.actor) if each.session == context.session]
        if len(waiting) != 1:
            return Reply("Nothing waits for an answer here." if not waiting else WHICH)
        question = waiting[0].question.id
    answered = await context.gateway.decline(context.actor, question)
    return Reply(answered.text, refusal=answered.refusal)


async def _page(context: CommandContext, logins: WebLogins, *, is_welcome: bool) -> Reply:
    """Let in a web page as the person who says so, or turn it away; the answer says which browser it is, and where."""
    actor, access = context.actor, context.ports.access
    if context.inbound.address.reply_to is not None or access.is_group(context.session):
        return Reply("Other people can read this chat. Send the code in our private chat, or in the terminal.")
    if access.missing(actor, "session.read", access.session_for(actor, own_session(actor.key))):
        return Reply("You may not use the web page.")
    try:
        asking = await logins.find(actor, context.arguments)
        if not is_welcome:
            await logins.deny(actor, asking)
            return Reply(f"Refused: {asking}.")
        if access.is_owner(actor) and not asking.is_here:
            return Reply(PAGE_FOR_OWNER)
        await logins.approve(actor, asking, owner=access.is_owner(actor))
    except LoginRefused as refused:
        return Reply(str(refused))
    return Reply(
        f"Signed in as {actor.key}: {asking}. If this is not your page, sign it out at once under `Devices` on the web "
        "page, or with `goclaw token revoke`."
    )


async def _approvals(context: CommandContext) -> Reply:
    action, _, number = context.arguments.partition(" ")
    if not action or (action.lower() == "list" and not number):
        rules = await _visible_rules(context)
        return Reply(
            "\n".join(["Permanent approvals:", *map(_rule_line, rules), "", APPROVALS_USAGE]) if rules else NO_RULES
        )
    number = number.strip().removeprefix("#")
    if action.lower() != "remove" or not (number.isdecimal() and number.isascii() and len(number) <= MAX_NUMBER):
        return Reply(APPROVALS_USAGE)
    if not any(rule.id == int(number) for rule in await _visible_rules(context)):
        return Reply(f"There is no approval {number}. {APPROVALS_USAGE}")
    await context.ports.rules.remove(int(number))
    return Reply(f"Approval {number} removed: such calls will ask again.")


async def _visible_rules(context: CommandContext) -> list[ApprovalRule]:
    """Return the rules that a person may see and remove: their own, and an admin all."""
    is_admin = context.ports.access.is_admin(context.actor) and not context.actor.behalf
    rules = await context.ports.rules.all()
    return [rule for rule in rules if is_admin or (context.actor.key and rule.holder == context.actor.key)]


def _rule_line(rule: ApprovalRule) -> str:
    made = f"{datetime.fromtimestamp(rule.made_at).astimezone():%Y-%m-%d}"
    return printable(f"{rule.id}. {rule.tool} for {rule.holder}: {rule.label} (by {rule.made_by}, {made})")


async def _mode(context: CommandContext) -> Reply:
    modes, wanted = context.ports.sessions.choices.modes, context.arguments.lower()
    if not wanted:
        return Reply(await _mode_overview(context, modes))
    names: dict[str, Mode | None] = {**{name: name for name in get_args(Mode)}, CONFIGURED: None}
    if wanted not in names:
        return Reply(f"There is no permission mode {wanted!r}. Send one of: {', '.join(names)}.")
    decision = await modes.choose(context.session, names[wanted], context.actor)
    if not decision.allowed:
        why = decision.rule if context.ports.access.is_admin(context.actor) else "you may not choose this one"
        return Reply(f"The permission mode is unchanged: {why}.")
    chosen = names[wanted] or modes.configured
    origin = "" if names[wanted] else ", as configured"
    return Reply(f"Permission mode: {chosen}{origin}: {MEANINGS[chosen]}.")


async def _mode_overview(context: CommandContext, modes: Modes) -> str:
    chosen, in_force = await modes.choice_for(context.session), await modes.of(context.session, context.actor)
    head = f"Permission mode: {chosen}."
    if in_force != chosen:
        head = f"Permission mode: {chosen}, which for you is {in_force}."
    lines = [f"  /mode {mode}: {meaning}" for mode, meaning in MEANINGS.items()]
    return "\n".join([head, *lines, f"  /mode {CONFIGURED}: as configured ({modes.configured})"])


def _may_approve(ports: CommandPorts, actor: Actor) -> bool:
    return ports.access.authorize(actor, "question.answer", actor.key).allowed


APPROVE = Command("approve", "Approve a tool call: /approve ID [always]", _approve, anywhere=True, serves=_may_approve)
DENY = Command("deny", "Deny a tool call, or skip a question: /deny [ID]", _deny, anywhere=True)


async def _guard(context: CommandContext) -> Reply:
    ports, action = context.ports, context.arguments.partition(" ")
    folder = str((await ports.environment.workspace(context.actor, context.session)).root)
    known, path = await ports.sessions.file_labels.of(folder), action[2].strip()
    if action[0].lower() == "clear" and path in known:
        await ports.sessions.file_labels.remove(folder, path)
        return Reply(f"{path} counts as yours again.")
    if action[0]:
        return Reply(f"{path or action[0]} has no label. {GUARD_USAGE}")
    foreign, private = describe(window_content([(await ports.sessions.contexts.session(context.session)).window]))
    lines = [
        f"Words of others in this conversation: {foreign or 'none'}",
        f"Private text in this conversation: {private or 'none'}",
        f"Files in which others may have written: {', '.join(sorted(known)[:MAX_LISTED]) or 'none'}",
    ]
    return Reply("\n".join([*lines, GUARD_USAGE]))


APPROVALS = Command(
    "approvals", "List or remove permanent approvals: /approvals [remove NUMBER]", _approvals, anywhere=True
)
GUARD = Command("guard", "Show what the agent has read here, and whose files: /guard [clear PATH]", _guard)
MODE = Command("mode", "Show or change the permission mode: /mode [NAME]", _mode)
