"""The books after many kills: what people see, what the tools did and what the database says, compared."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from goclaw.conversation.turns.turn import STOPPED_HERE
from tests.acceptance.books import NO_ANSWER, Copies, Seen
from tests.acceptance.daemon import Installation
from tests.acceptance.model import CAPTION, EFFECTS, END, LONG_LINES, UNKNOWN
from tests.acceptance.people import Chat, People
from tests.acceptance.scenes import open_work

REPLIES = {
    "/stop": re.compile(r"Stopped\.|Stopping: |Nothing is running\."),
    "/queue": re.compile("Queue mode: "),
    "/approve": re.compile(r"Allowed\.|Already decided: |This question does not exist"),
}

STOPPED_CALL = "[error stopped by the user]"
"""What an answer says of a call that a message in its place has stopped: it may have done nothing."""
TRACEBACK = 1_500
"""Characters that are kept of an unexpected error."""


@dataclass
class Outcome:
    """What the books say. Lists are what must not happen; they name the messages."""

    kills: int = 0
    kills_at: dict[str, int] = field(default_factory=dict)
    """How many at each point; `time` and `start` are random moments, `unreached` those of a point that the
    daemon did not come to."""
    faults_injected: dict[str, int] = field(default_factory=dict)
    messages: int = 0
    answered_once: int = 0
    marked: int = 0
    """Messages whose answer came (also) with the mark: the one documented window."""
    marked_twice_shown: int = 0
    """Of these, the ones whose answer people really see twice."""
    stopped: int = 0
    """Messages without an answer because of /stop, or because the next one took their place."""
    lost: list[str] = field(default_factory=list)
    unmarked_duplicates: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)
    """Messages of the bot that are no answer."""
    replies_wrong: list[str] = field(default_factory=list)
    """Commands with no reply or with two."""
    effects: int = 0
    effects_twice: list[str] = field(default_factory=list)
    effects_missing: list[str] = field(default_factory=list)
    """The tool is said to have run, but did not."""
    unknown: int = 0
    """Calls that a kill cut: the model was told so."""
    unfinished: list[str] = field(default_factory=list)
    """What the database still holds as open, or holds twice."""
    unexpected: list[str] = field(default_factory=list)
    """Errors that the daemons met and did not know, with where they came from."""
    stuck: list[str] = field(default_factory=list)
    """Waits that did not end in time."""
    evidence: dict[str, list[str]] = field(default_factory=dict)
    """What people see in each chat where something is wrong."""
    integrity: str = ""
    previews_left: int = 0
    """Begun answers that a kill left behind in a group."""
    approvals_repeated: int = 0
    """Approvals that came while the daemon had not got to its question again: the person was told, and repeated it."""
    model_requests: int = 0
    resume: dict[str, float] = field(default_factory=dict)
    """Seconds from the start of a process until it polls or asks the model, whichever is first."""

    @property
    def faults(self) -> list[str]:
        """Everything that must not happen."""
        listed = {
            "lost": self.lost,
            "answered twice without a mark": self.unmarked_duplicates,
            "out of order": self.out_of_order,
            "not an answer": self.strange,
            "replies": self.replies_wrong,
            "effect twice": self.effects_twice,
            "effect missing": self.effects_missing,
            "left in the database": self.unfinished,
            "failed unexpectedly": self.unexpected,
            "not finished in time": self.stuck,
        }
        found = [f"{name}: {', '.join(items[:10])}" for name, items in listed.items() if items]
        # Empty while the run goes on.
        return found if self.integrity in ("ok", "") else [*found, f"integrity_check: {self.integrity}"]


def close_books(found: Outcome, people: People, home: Installation) -> None:
    """Count everything into `found`."""
    for chat in people.chats.values():
        close_chat(found, chat, people.seen(chat))
    close_effects(found, people, home.workspace)
    _database(found, home)
    found.unexpected = unexpected(home)


def close_chat(found: Outcome, chat: Chat, seen: Sequence[Seen]) -> None:
    """Count into `found` whether every message was answered, once, in the order in which they were written."""
    cut = {name for message in seen if STOPPED_HERE in message.text for name in message.names}
    # A /stop ended a call, whose file then never comes, and the next answer says so.
    cut |= {name for message in seen if STOPPED_CALL in message.text for name in message.answers}
    seen = [message for message in seen if STOPPED_HERE not in message.text]  # what a /stop cut is no answer
    copies, names = Copies.of(seen), [name for name, _ in chat.said]
    found.messages += len(names)
    found.previews_left += sum(message.is_begun for message in seen)
    found.strange += [
        f"{chat.number}: {message.text[:80]}"
        for message in seen
        if not message.is_known or (message.is_begun and chat.number > 0) or set(message.answers) - set(names)
    ]
    found.unmarked_duplicates += [f"{chat.number}: {piece}" for piece in copies.doubled()]
    missing = []
    for name, kind in chat.said:
        wanted = _pieces(name, kind)
        here = [piece for piece in wanted if copies.has(piece)]
        found.answered_once += all(copies.plain[piece] + copies.marked[piece] == 1 for piece in wanted)
        found.marked += any(copies.marked[piece] for piece in wanted)
        found.marked_twice_shown += any(copies.marked[piece] and copies.plain[piece] for piece in wanted)
        # The model names, beside the message that it answers, those before it that a /stop left without an answer.
        only_named = f"{name} {END}" not in here and bool(chat.commands["/stop"])
        if not here or here == [f"{CAPTION} {name}"] or ((name in cut or only_named) and len(here) < len(wanted)):
            missing.append(name)
        elif len(here) < len(wanted):
            found.lost.append(f"{name}: {len(wanted) - len(here)} pieces of {len(wanted)}")
    excused = _excused(chat, missing)
    found.stopped += len(excused)
    found.lost += [name for name in missing if name not in excused]
    order = _order(seen, names)
    found.out_of_order += [
        f"{chat.number}: {names[after]} below {names[before]}" for before, after in pairwise(order) if after < before
    ]
    found.replies_wrong += _replies(chat, seen)
    if set(missing) - excused or copies.doubled() or any(after < before for before, after in pairwise(order)):
        marks = {True: "marked ", False: ""}
        found.evidence[str(chat.number)] = [
            f"{message.message_id}: {marks[message.marked]}{message.text[:50]!r}" for message in seen
        ] + [f"said: {' '.join(f'{name} {kind}' for name, kind in chat.said)}", f"commands: {dict(chat.commands)}"]
    found.approvals_repeated += sum(max(0, count - 1) for count in chat.reacted.values())


def _order(seen: Sequence[Seen], names: Sequence[str]) -> list[int]:
    """The places of the messages in the order of their answers; what came once more, marked, stands where it stood."""
    order: list[int] = []
    for message in seen:
        if message.is_begun:
            continue  # what a kill left of an answer, which came below
        places = [names.index(name) for name in message.answers if name in names]
        if order[-len(places) :] != places:  # the same once more, of which one is marked (`copies.doubled`)
            order += places
    return order


def _pieces(name: str, kind: str) -> list[str]:
    """Everything that must come of an answer."""
    lines = [f"{name} line {number}" for number in range(LONG_LINES)] if kind == "long" else []
    files = [f"{CAPTION} {name}"] if kind == "file" else []
    return [f"answer {name}", *lines, f"{name} {END}", *files]


def _excused(chat: Chat, missing: Sequence[str]) -> set[str]:
    """Messages that need no answer: one for each /stop; where messages interrupt, all but the last one."""
    if chat.habits.mode == "interrupt":
        return set(missing) - {chat.said[-1][0]} if chat.said else set()
    return set(missing[: chat.commands["/stop"]])


def _replies(chat: Chat, seen: Sequence[Seen]) -> list[str]:
    """Each command has its reply, and only marked ones come again."""
    wrong = []
    unanswered = sum(message.text.startswith(NO_ANSWER) for message in seen)
    for command, text in REPLIES.items():
        plain = sum(bool(text.match(message.text)) for message in seen if not message.marked)
        marked = sum(bool(text.match(message.text)) for message in seen if message.marked)
        if not plain <= chat.commands[command] <= plain + marked + unanswered:
            wrong.append(f"{chat.number}: {chat.commands[command]} {command}, {plain} replies and {marked} marked")
    return wrong


def close_effects(found: Outcome, people: People, workspace: Path) -> None:
    """What must not run twice did not; what is said to have run did."""
    log = workspace / EFFECTS
    effects = Counter(log.read_text().split() if log.exists() else [])
    found.effects = sum(effects.values())
    found.effects_twice = [name for name, count in effects.items() if count > 1]
    for chat in people.chats.values():
        texts = {name: _text_about(name, message) for message in people.seen(chat) for name in message.answers}
        for name, kind in chat.said:
            text = texts.get(name)
            if text is None:
                continue
            unknown = text.count(UNKNOWN)
            found.unknown += unknown
            if unknown or STOPPED_CALL in text:
                continue  # of these calls one may have had no effect
            if kind in ("exec", "both") and not effects[name]:
                found.effects_missing.append(f"{name}{text}")
            written = workspace / f"{name}.txt"
            if kind in ("write", "both") and (not written.exists() or written.read_text() != name):
                found.effects_missing.append(f"{name}.txt")


def _text_about(name: str, message: Seen) -> str:
    """What an answer says of one of the messages that it answers."""
    about = re.search(rf"\b{name}\b((?: \[[a-z ]+\])*)", message.text)
    return about[1] if about else ""


def _database(found: Outcome, home: Installation) -> None:
    """Whole, nothing left open, every message and every tool's result there once."""
    found.integrity = home.integrity()
    found.unfinished += open_work(home)
    found.unfinished += [
        f"{turn} has {count} rows of {step}"
        for turn, step, count in home.read(
            "SELECT turn, step, count(*) AS n FROM messages WHERE role = 'user' GROUP BY turn, step HAVING n != 1"
        )
    ]
    found.unfinished += [
        f"{turn} {call} has {count} results"
        for turn, call, count in home.read(
            "SELECT turn, call_id, sum(role = 'tool_result') AS n FROM messages WHERE call_id IS NOT NULL "
            "GROUP BY turn, call_id HAVING n != 1 OR count(*) != 2"
        )
    ]


def unexpected(home: Installation) -> list[str]:
    """What the logs call unexpected, oldest first, with the end of its traceback. A kill may cut the last line."""
    found = []
    for path in sorted((home.state / "logs").glob("goclaw.log*"), reverse=True):
        for line in path.read_text(errors="replace").splitlines():
            if "failed unexpectedly" in line:
                with suppress(ValueError):
                    found.append("{event} {exception}".format_map(defaultdict(str, json.loads(line)))[-TRACEBACK:])
    return found
