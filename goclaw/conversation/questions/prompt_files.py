"""Questions to admins about changed prompt files of workspaces that several people share.

They belong to no turn: the card goes to the private chat of each admin, a line to the terminals that admins watch. The
first answer wins, by a button, by `/approve ID` or `/deny ID`. `goclaw prompt-files` answers on the command line.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from goclaw.common.auth.access import Access
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.users import Users
from goclaw.common.core.bus import Bus
from goclaw.common.core.diffs import unified_diff
from goclaw.common.core.events import ALLOW, DENY, DETAILS, Acceptance, Actor, AnswerRefusal, Choice, Delivery
from goclaw.common.core.records import BoundedDict
from goclaw.common.core.redact import mask, reveal
from goclaw.common.workspace import FileChange
from goclaw.conversation.questions.question_messages import ELSEWHERE, NO_QUESTION, answered, name_of, private_chats
from goclaw.durable.engine.outbox import Outbox
from goclaw.errors import StateError
from goclaw.tools.approval.sentences import fenced
from goclaw.tools.toolkit.base import ToolEnvironment

log = logging.getLogger(__name__)

ANSWERS = (ALLOW, DENY, DETAILS)
_LABELS = {ALLOW: "✓ Use the new text", DENY: "✗ Keep the old one", DETAILS: "Details"}
MAX_LINES, MAX_LINE = 60, 200
"""Lines and characters per line of a diff: it is read on a telephone."""
_MAX_ASKED = 1_000
SENT_WHOLE = "All of it is in our private chat. Read it, then answer again."
"""The reply to a yes to a change of which the person's card had shown parts only."""
NO_ALWAYS = "Approve each changed file on its own: /approve ID."


def diff_lines(change: FileChange) -> list[str]:
    """Return the change line by line, secrets masked, and everything that would not be seen as its code."""
    before, after = (reveal(mask(text)).splitlines() for text in (change.before, change.after))
    return list(islice(unified_diff(before, after, ("approved", "now"), 2), 2, None)) or ["(no visible change)"]


def shown_diff(change: FileChange) -> str:
    """Return the change as a block of code for a chat: its first lines."""
    lines = diff_lines(change)
    left = len(lines) - MAX_LINES
    more = [f"… ({left:,} more lines: `goclaw prompt-files list` shows them)"] if left > 0 else []
    return fenced("\n".join([*map(_cut, lines[:MAX_LINES]), *more]), "diff")


def _is_cut(change: FileChange) -> bool:
    """Whether a chat shows parts of the change only."""
    lines = diff_lines(change)
    return len(lines) > MAX_LINES or any(len(line) > MAX_LINE for line in lines)


def _cut(line: str) -> str:
    """Cut a line and say so: a change is easily pushed out of sight by spaces."""
    beyond = len(line) - MAX_LINE
    return f"{line[:MAX_LINE]}… [{beyond:,} more characters]" if beyond > 0 else line


class PromptFileQuestions:
    """The questions about prompt files, asked and answered."""

    def __init__(self, environment: ToolEnvironment, *, access: Access, bus: Bus, outbox: Outbox, users: Users) -> None:
        """Begin without questions; those of an earlier run are found when they are answered."""
        self._approved = environment.approved_files
        self._access = access
        self._audit = environment.audit
        self._bus = bus
        self._blobs = environment.blobs
        self._outbox = outbox
        self._users = users
        self._asked: BoundedDict[str, bool] = BoundedDict(_MAX_ASKED)
        self._opened: BoundedDict[tuple[str, str], bool] = BoundedDict(_MAX_ASKED)
        """The changes that the cards of persons show whole."""

    async def ask(self, changes: Sequence[FileChange]) -> None:
        """Ask for the approval of changes, each once; a card that the disk refuses is only logged."""
        for change in changes:
            if change.id in self._asked:
                continue
            self._asked[change.id] = True
            said = self._headline(change)
            log.warning("%s: `goclaw prompt-files approve %s`", said, change.name)
            how = f"/approve {change.id} or /deny {change.id}; `goclaw prompt-files list` shows the change"
            self._bus.notice(f"⚠ {said} {how}")
            try:
                for card in await asyncio.to_thread(self._cards, change, said):
                    await self._outbox.promise(card)
            except StateError as error:
                log.warning("could not ask admins about %s: %s", change.name, error)

    async def answer(self, actor: Actor, change_id: str, answer: str) -> Acceptance | None:
        """Answer the question with this id, if there is one and the actor may.

        Returns the reply; None: there is no such question, or not for this person.

        Raises:
            StateError: the answer cannot be kept.
        """
        if actor.behalf or not self._may(actor):
            return None
        waiting = await asyncio.to_thread(self._approved.waiting)
        change = next((each for each in waiting if each.id == change_id), None)
        if change is None:
            return None
        if answer not in ANSWERS:
            return answered(NO_ALWAYS, AnswerRefusal.INVALID)
        approve = answer == ALLOW
        if answer == DETAILS or (approve and await self._hides_some_of(change, actor)):
            has_card = await self._open(change, actor)
            said = ELSEWHERE if not has_card else "" if answer == DETAILS else SENT_WHOLE
            return answered(said, None if answer == DETAILS else AnswerRefusal.INVALID)
        if approve:
            named = (change.root, change.name, change.before, change.after)
            done = await asyncio.to_thread(self._approved.approve, *named)
        else:
            done = await asyncio.to_thread(self._approved.refuse, change)
        if not done:
            return NO_QUESTION
        record_answer(self._audit, actor, change, approve=approve)
        words = f"{'Approved' if approve else 'Refused'} by {name_of(self._users, actor.key)}"
        for asked in self._cards(change, self._headline(change)):
            sign = "✓" if approve else "✗"
            text = f"{sign} {words}: **{change.name}** of {change.root}\n\n{shown_diff(change)}"
            closed = Delivery(f"{asked.id}:closed", asked.address, text, action="edit", of=asked.id)
            await self._outbox.promise(closed)
        return answered(
            f"{change.name}: {'the new text is now in force' if approve else 'the old text stays in force'}."
        )

    async def _hides_some_of(self, change: FileChange, actor: Actor) -> bool:
        """Whether the person was shown parts of the change only; a terminal names the command that shows all of it."""
        is_in_chat = actor.entry in self._outbox.channels
        return is_in_chat and (change.id, actor.key) not in self._opened and await asyncio.to_thread(_is_cut, change)

    async def _open(self, change: FileChange, actor: Actor) -> bool:
        """Send the person the whole change, and give their card the button that approves it. False: it has no card."""
        cards = await asyncio.to_thread(self._cards, change, self._headline(change))
        card = next((each for each in cards if each.id == _card_id(change, actor.key)), None)
        if card is None:
            return False
        lines = await asyncio.to_thread(diff_lines, change)
        whole = await self._blobs.put("\n".join(lines).encode(), "text/plain")
        caption, name = "All of it; the question is above.", f"{change.name}.diff.txt"
        document = Delivery(f"{card.id}:whole", card.address, caption, media=whole, media_name=name, asks=True)
        opened = Delivery(f"{card.id}:details", card.address, card.text, action="edit", of=card.id)
        for delivery in (document, replace(opened, choices=_choices(change, ALLOW, DENY))):
            await self._outbox.promise(delivery)
        self._opened[change.id, actor.key] = True
        return True

    def _cards(self, change: FileChange, said: str) -> list[Delivery]:
        """Return the card for each admin with a private chat."""
        how = f"/approve {change.id} or /deny {change.id}"
        what = (
            "This file instructs the agents of everybody who shares this workspace. Until an admin approves the "
            f"change, they use {'the text approved before' if change.before else 'no such file'}."
        )
        text = "\n\n".join((f"**A prompt file:** {said}", what, shown_diff(change), how))
        choices = _choices(change, DENY, DETAILS) if _is_cut(change) else _choices(change, ALLOW, DENY)
        return [
            Delivery(_card_id(change, key), address, text, choices=choices, asks=True)
            for key, address in private_chats(self._users, self._outbox)
            if self._may(Actor(key, address.channel))
        ]

    def _headline(self, change: FileChange) -> str:
        by = f"by {name_of(self._users, change.author)}" if change.author else "by a command or another program"
        return f"{change.name} of {change.root} was {'changed' if change.after else 'removed'} {by}."

    def _may(self, actor: Actor) -> bool:
        return self._access.authorize(actor, "command.admin", "prompt-files").allowed


def _card_id(change: FileChange, key: str) -> str:
    return f"prompt-file:{change.id}:{key}"


def _choices(change: FileChange, *answers: str) -> tuple[Choice, ...]:
    return tuple(Choice(_LABELS[answer], change.id, answer, ANSWERS.index(answer)) for answer in answers)


def record_answer(audit: Callable[[AuditEntry], None], actor: Actor, change: FileChange, *, approve: bool) -> None:
    """Audit who approved or refused a change."""
    action = "prompt_file.approve" if approve else "prompt_file.refuse"
    audit(AuditEntry(action, f"{change.root}/{change.name}", actor, result="ok", detail=f"change {change.id}"))
