"""What people see in the end, message by message: everything answered once (or marked), in order, nothing strange."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from benchmarks.soak.people import People
from benchmarks.soak.terminal import Terminal
from goclaw.conversation.turns.turn import STOPPED_HERE
from tests.acceptance import ledger
from tests.acceptance.books import Copies, Seen, read_chat
from tests.acceptance.model import END

SPEC = "openai-chat:soak"
FAILURE = f"{SPEC}: "
"""How the message begins that stands in place of an answer."""
REPLIES = {
    "/status": re.compile("Session Status"),
    "/compact": re.compile("Compaction completed!|Nothing to compact"),
    **{command: ledger.REPLIES[command] for command in ("/stop", "/approve")},
}
PROMISE = re.compile("The context will be compacted before the next request")
"""What is said at once of a /compact while a turn runs; its reply follows."""
CARD = re.compile(r"(✓ [^\n]*: )?\*{0,2}(May \w+ run|A question)|Which colour for|.*\n\n1\. red", re.DOTALL)
MOST_REQUESTS = 6
"""Of a turn that fails."""


@dataclass
class Outcome:
    """What became of everything. Lists are what must not be."""

    messages: int = 0
    answered: int = 0
    failed: int = 0
    """Messages of which a person was told that the model failed."""
    stopped: int = 0
    marked: int = 0
    """Messages of the bot that came once more with the mark: the documented window."""
    commands: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)
    wrong_replies: list[str] = field(default_factory=list)
    too_many_requests: list[str] = field(default_factory=list)
    terminal: list[str] = field(default_factory=list)
    left_open: list[str] = field(default_factory=list)
    previews_left: int = 0

    @property
    def faults(self) -> list[str]:
        """Everything that must not be, in words."""
        listed = {name: found for name, found in vars(self).items() if isinstance(found, list)}
        return [f"{name}: {len(found)}: {'; '.join(found[:5])}" for name, found in listed.items() if found]


def close_books(people: People, requests: Counter[str], terminal: Terminal, left: Sequence[str]) -> Outcome:
    """Compare what was said with what is seen."""
    found = Outcome(messages=len(people.said), left_open=list(left))
    for chat in {said.act.chat for said in people.said.values()} | set(people.commands):
        _chat(found, people, chat, read_chat(people.telegram.sent(chat)))
    for name, said in people.said.items():
        if said.act.kind == "wrong" and requests[name] > MOST_REQUESTS:
            found.too_many_requests.append(f"{name}: {requests[name]}")
    found.terminal += [f"{name} was not answered" for name in terminal.open_ones()]
    found.terminal += [f"{name} was answered {count} times" for name, count in terminal.answers.items() if count > 1]
    found.terminal += [f"row {row} was shown {count} times" for row, count in terminal.rows.items() if count > 1]
    return found


def _chat(found: Outcome, people: People, chat: int, seen: Sequence[Seen]) -> None:
    acts = [said.act for said in people.said.values() if said.act.chat == chat]
    names = [act.name for act in acts]
    failures = [message for message in seen if message.text.rpartition(f"{STOPPED_HERE}\n")[2].startswith(FAILURE)]
    seen = [message for message in seen if STOPPED_HERE not in message.text]  # what was cut is no answer
    copies, commands = Copies.of(seen), people.commands[chat]
    found.commands += sum(commands.values())
    found.marked += sum(message.marked for message in seen)
    found.doubled += [f"{chat}: {piece}" for piece in copies.doubled()]
    wrong = [act.name for act in acts if act.kind == "wrong"]
    missing = [name for name in names if name not in wrong and not copies.has(f"{name} {END}")]
    # A stop ends one message without an answer, also one that would have failed.
    excused = min(len(missing), commands["/stop"])
    found.stopped += excused
    found.answered += len(names) - len(wrong) - len(missing)
    if len(missing) > excused:
        found.lost.append(f"{chat}: {missing}, {excused} of them stopped")
    plain = sum(not message.marked for message in failures)
    found.failed += plain
    if not plain <= len(wrong) <= len(failures) + commands["/stop"]:
        found.lost.append(f"{chat}: {len(wrong)} failing turns, {len(failures)} messages about them")
    order = [names.index(name) for message in seen if not message.marked for name in message.answers if name in names]
    found.out_of_order += [f"{chat}: {names[two]} below {names[one]}" for one, two in pairwise(order) if two < one]
    for command, text in REPLIES.items():
        replies = [message for message in seen if text.match(message.text)]
        if not sum(not message.marked for message in replies) <= commands[command] <= len(replies):
            found.wrong_replies.append(f"{chat}: {commands[command]} {command}, {len(replies)} replies")
    promises = sum(bool(PROMISE.match(message.text)) for message in seen if not message.marked)
    if promises > commands["/compact"]:
        found.wrong_replies.append(f"{chat}: {commands['/compact']} /compact, {promises} promises")
    _strange(found, chat, seen)


def _strange(found: Outcome, chat: int, seen: Sequence[Seen]) -> None:
    """What is neither an answer nor a reply nor a question."""
    for message in seen:
        known = message.pieces or message.text.startswith(FAILURE) or CARD.match(message.text)
        if message.is_begun:
            found.previews_left += 1
        elif not known and not any(text.match(message.text) for text in (PROMISE, *REPLIES.values())):
            found.strange.append(f"{chat}: {message.text[:120]!r}")
