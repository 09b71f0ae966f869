"""What people write and what goes wrong, and when: all of it from the seed, before anything runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

PEOPLE = tuple(range(1_001, 1_051))
"""Telegram ids of fifty people, each with a private chat."""
GROUPS: Mapping[int, Sequence[int]] = {-101: PEOPLE[:6], -102: PEOPLE[6:12], -103: PEOPLE[12:18]}
GROUP_SHARE = 0.04
"""Of the messages: Telegram lets a bot send or edit twenty times a minute in a group."""
FAULT_SECONDS = 2.0
"""On average between two faults of Telegram."""
KINDS: Mapping[str, float] = {
    "plain": 62,
    "shaky": 7,
    "wrong": 2,
    "slow": 3,
    "read": 5,
    "exec": 4,
    "search": 4,
    "write": 3,
    "ask": 2,
    "album": 2,
    "edit": 3,
    "stop": 2,
    "/status": 1.5,
    "/compact": 1,
}
"""What people do, and how often. `shaky`: the model's first answer fails; `wrong`: all do; `write` needs an approval;
`edit`: the message is changed right after; `stop`: a long answer is stopped."""
IN_GROUPS = ("plain", "plain", "plain", "shaky", "read", "slow")
TROUBLE: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("sendMessage", {"status": 429, "retry_after": 1}),
    ("sendMessage", {"status": 502, "description": "Bad Gateway"}),
    ("sendMessage", {"cut": "before"}),
    ("sendMessage", {"cut": "after"}),
    ("sendMessage", {"delay": 1.5}),
    ("sendMessage", {"body": b"<html>502 Bad Gateway</html>"}),
    ("editMessageText", {"status": 429, "retry_after": 1}),
    ("editMessageText", {"cut": "after"}),
    ("editMessageText", {"status": 502, "description": "Bad Gateway"}),
    ("sendMessageDraft", {"status": 429, "retry_after": 1}),
    ("sendMessageDraft", {"cut": "before"}),
    ("sendChatAction", {"status": 429, "retry_after": 2}),
    ("sendChatAction", {"cut": "after"}),
    ("deleteMessage", {"status": 502, "description": "Bad Gateway"}),
    ("getFile", {"status": 502, "description": "Bad Gateway"}),
    ("getUpdates", {"cut": "before"}),
    ("getUpdates", {"cut": "after"}),
    ("getUpdates", {"status": 502, "description": "Bad Gateway"}),
    ("getUpdates", {"status": 429, "retry_after": 1}),
    ("getUpdates", {"body": b"<html>"}),
    ("getUpdates", {"delay": 2.0}),
)


@dataclass(frozen=True)
class Act:
    """Somebody does something."""

    at: float
    """Seconds after the beginning."""
    number: int
    kind: str
    user: int
    chat: int

    @property
    def name(self) -> str:
        """How the message is called in its text and in its answer."""
        return f"m{self.number}c{abs(self.chat)}"


@dataclass(frozen=True)
class Trouble:
    """The next call of a method fails."""

    at: float
    method: str
    fault: Mapping[str, Any]


def acts(seed: str, seconds: float, rate: float) -> Iterator[Act]:
    """`rate` messages a second, everybody in turn but in an order of chance, so that nobody is flooded."""
    random = Random(f"{seed}:acts")
    order: list[int] = []
    for number in range(int(seconds * rate)):
        if not order:
            order = random.sample(PEOPLE, len(PEOPLE))
        user, at = order.pop(), (number + random.random()) / rate
        groups = [group for group, members in GROUPS.items() if user in members]
        if groups and random.random() < GROUP_SHARE * len(PEOPLE) / sum(map(len, GROUPS.values())):
            yield Act(at, number, random.choice(IN_GROUPS), user, groups[0])
        else:
            yield Act(at, number, random.choices(list(KINDS), list(KINDS.values()))[0], user, user)


def troubles(seed: str, seconds: float, every: float = FAULT_SECONDS) -> Iterator[Trouble]:
    """Telegram's bad weather: a fault `every` so many seconds on average."""
    random = Random(f"{seed}:trouble")
    at = random.expovariate(1 / every)
    while at < seconds:
        method, fault = random.choice(TROUBLE)
        yield Trouble(at, method, fault)
        at += random.expovariate(1 / every)


def breaks(seed: str, seconds: float) -> Iterator[tuple[float, float]]:
    """When the terminal's connection breaks, and for how long."""
    random = Random(f"{seed}:breaks")
    at = random.uniform(5, 20)
    while at < seconds:
        lasts = random.uniform(0.2, 4)
        yield at, lasts
        at += lasts + random.uniform(5, 30)
