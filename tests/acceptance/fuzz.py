"""kill -9 at random moments, while several people talk; then the books are checked.

By hand: `python -m tests.acceptance.fuzz --kills 300 [--seed 1] [--output benchmarks/results/kill-<date>.json]`.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median

from tests.acceptance.daemon import Installation, installation
from tests.acceptance.model import EFFECTS, END, UNKNOWN, EchoModel, echo_model
from tests.acceptance.waiting import clock, eventually
from tests.fake_telegram.server import FakeTelegram
from tests.fake_telegram.world import Sent

PRIVATE = (11, 12, 13)
GROUP = -100
CHATS = (*PRIVATE, GROUP)
MARK = "(sent again after a restart)"
KINDS = ("plain", "exec", "write", "both")
UNANSWERED = 6
"""Messages that wait in every chat when a daemon starts: more than it can answer until it is killed."""
IN_START = 0.2
"""Share of the kills that hit a daemon while it starts."""
LONGEST_LIFE = 0.9
"""Seconds after its first poll that a daemon lives at most."""
SLOWEST_PIECE = 0.25
"""Seconds that the model takes for a piece of an answer, at most: some of them are long enough to be previewed."""
DRAIN_SECONDS = 40.0


@dataclass
class Outcome:
    """What the books say."""

    kills: int = 0
    messages: int = 0
    answered_once: int = 0
    marked: int = 0
    """Messages whose answer came (also) with the mark: the one documented window."""
    marked_twice_shown: int = 0
    """Of these, the ones whose answer people really see twice."""
    lost: list[str] = field(default_factory=list)
    unmarked_duplicates: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)
    """Messages of the bot that are no answer."""
    effects: int = 0
    effects_twice: list[str] = field(default_factory=list)
    effects_missing: list[str] = field(default_factory=list)
    """The tool is said to have run, but did not."""
    unknown: int = 0
    """Calls that a kill cut: the model was told so."""
    unfinished: list[str] = field(default_factory=list)
    """What the database still holds as open, or holds twice."""
    stuck: list[str] = field(default_factory=list)
    integrity: str = ""
    previews_left: int = 0
    """Begun answers that a kill left behind in a group."""
    model_requests: int = 0
    ready_median: float = 0.0
    """Seconds from the start of a process until it polls."""
    ready_longest: float = 0.0

    @property
    def faults(self) -> list[str]:
        """Everything that must not happen."""
        listed = {
            "lost": self.lost,
            "answered twice without a mark": self.unmarked_duplicates,
            "out of order": self.out_of_order,
            "not an answer": self.strange,
            "effect twice": self.effects_twice,
            "effect missing": self.effects_missing,
            "left in the database": self.unfinished,
            "not finished in time": self.stuck,
        }
        found = [f"{name}: {', '.join(items[:10])}" for name, items in listed.items() if items]
        return found if self.integrity == "ok" else [*found, f"integrity_check: {self.integrity}"]


class Fuzz:
    """People who never stop talking, and a daemon that does not live long."""

    def __init__(self, home: Installation, telegram: FakeTelegram, model: EchoModel, random: Random) -> None:
        self.home = home
        self.telegram = telegram
        self.model = model
        self.random = random
        self.said: dict[int, list[tuple[str, str]]] = {chat: [] for chat in CHATS}
        """The id and the kind of every message, by chat."""
        self.kills = 0
        self.stuck: list[str] = []
        """What the last daemon did not finish in time."""
        self.starts: list[float] = []

    async def run(self, kills: int) -> Outcome:
        """Kill so many daemons, let the last one finish, and check the books."""
        self.home.write_users({f"telegram:{user}": {"name": f"User {user}"} for user in PRIVATE})
        for _ in range(kills):
            await self.talk()
            await self.one_life()
        self.starts.append(await self.home.start(self.telegram))
        await self.drain()
        code = await self.home.stop()
        outcome = Books(self).outcome()
        outcome.stuck = self.stuck
        if code != 0:
            outcome.unfinished.append(f"the last daemon ended with {code}")
        return outcome

    async def drain(self) -> None:
        """Wait until nothing is left to do; what is then still open is for the books to find."""
        try:
            await eventually(lambda: not self.unanswered() and not self.open_work(), DRAIN_SECONDS)
        except TimeoutError:
            self.stuck = [f"{chat} {name}" for chat, name in sorted(self.unanswered())] + self.open_work()

    async def talk(self) -> None:
        """Everybody writes until enough is unanswered; those in the group speak to the bot by its name."""
        missing = self.unanswered()
        for chat in CHATS:
            for _ in range(UNANSWERED - sum(1 for other, _ in missing if other == chat)):
                identity = f"m{len(self.said[chat])}c{abs(chat)}"
                kind = self.random.choice(KINDS)
                self.said[chat].append((identity, kind))
                if chat == GROUP:
                    user = self.random.choice(PRIVATE)
                    await self.telegram.world.say(f"@claw_bot {identity} {kind}", user=user, chat=chat)
                else:
                    await self.telegram.world.say(f"{identity} {kind}", user=chat)

    async def one_life(self) -> None:
        """A daemon, from its start to its sudden end."""
        if self.random.random() < IN_START:
            await self.home.spawn()
            await clock.sleep(self.random.uniform(0, 1.5 * median(self.starts or [1.0])))
        else:
            self.starts.append(await self.home.start(self.telegram))
            await clock.sleep(self.random.uniform(0, LONGEST_LIFE))
        await self.home.kill()
        self.kills += 1

    def unanswered(self) -> set[tuple[int, str]]:
        """Chat and id of what has no answer yet."""
        answered = {(sent.chat, name) for sent in self.telegram.sent() if (name := answered_by(sent))}
        return {(chat, name) for chat, said in self.said.items() for name, _ in said} - answered

    def open_work(self) -> list[str]:
        """What the daemon has not finished."""
        statement = (
            "SELECT id FROM inbox WHERE state != 'done' UNION ALL SELECT turn FROM steps "
            "UNION ALL SELECT id FROM deliveries WHERE state != 'sent'"
        )
        return [str(row[0]) for row in self.home.read(statement)]


@dataclass
class Books:
    """What people see, what the tools did, and what the database says, compared."""

    fuzz: Fuzz

    def outcome(self) -> Outcome:
        """Everything counted."""
        fuzz = self.fuzz
        found = Outcome(kills=fuzz.kills, messages=sum(len(said) for said in fuzz.said.values()))
        for chat, said in fuzz.said.items():
            self.check_chat(found, fuzz.telegram.sent(chat), [name for name, _ in said])
        self.check_effects(found)
        self.check_database(found)
        found.model_requests = len(fuzz.model.requests)
        found.ready_median, found.ready_longest = round(median(fuzz.starts), 2), round(max(fuzz.starts), 2)
        return found

    def check_chat(self, found: Outcome, messages: list[Sent], expected: list[str]) -> None:
        """Every message answered, once, in the order in which they were written."""
        names = [answered_by(sent) for sent in messages]
        for sent, name in zip(messages, names, strict=True):
            if name is None and is_preview(sent):
                found.previews_left += 1
            elif name not in expected:
                found.strange.append(sent.text[:60])
        copies = Counter(name for name in names if name)
        marked = {name for sent, name in zip(messages, names, strict=True) if name and sent.text.startswith(MARK)}
        unmarked = Counter(
            name for sent, name in zip(messages, names, strict=True) if name and not sent.text.startswith(MARK)
        )
        found.marked += len(marked)
        found.marked_twice_shown += sum(1 for name in marked if copies[name] > 1)
        found.lost += [name for name in expected if not copies[name]]
        found.answered_once += sum(1 for name in expected if copies[name] == 1)
        found.unmarked_duplicates += [name for name, count in unmarked.items() if count > 1]
        places = [expected.index(name) for name in names if name in expected]
        found.out_of_order += [expected[after] for before, after in pairwise(places) if after < before]

    def check_effects(self, found: Outcome) -> None:
        """What must not run twice did not; what is said to have run did."""
        log = self.fuzz.home.workspace / EFFECTS
        effects = Counter(log.read_text().split() if log.exists() else [])
        found.effects = sum(effects.values())
        found.effects_twice = [name for name, count in effects.items() if count > 1]
        texts = {answered_by(sent): sent.text for sent in self.fuzz.telegram.sent()}
        for name, kind in (item for said in self.fuzz.said.values() for item in said):
            unknown = UNKNOWN in texts.get(name, "")
            found.unknown += unknown
            if kind in ("exec", "both") and not effects[name] and not unknown:
                found.effects_missing.append(name)
            written = self.fuzz.home.workspace / f"{name}.txt"
            if kind in ("write", "both") and (not written.exists() or written.read_text() != name):
                found.effects_missing.append(f"{name}.txt")

    def check_database(self, found: Outcome) -> None:
        """Whole, nothing left open, every message and every tool's result there once."""
        home = self.fuzz.home
        found.integrity = str(home.read("PRAGMA integrity_check")[0][0])
        found.unfinished = self.fuzz.open_work()
        found.unfinished += [
            f"{turn} has {count} user rows"
            for turn, count in home.read(
                "SELECT turn, sum(role = 'user') AS n FROM messages GROUP BY turn HAVING n != 1"
            )
        ]
        found.unfinished += [
            f"{turn} {call} has {count} results"
            for turn, call, count in home.read(
                "SELECT turn, call_id, sum(role = 'tool_result') AS n FROM messages WHERE call_id IS NOT NULL "
                "GROUP BY turn, call_id HAVING n != 1 OR count(*) != 2"
            )
        ]


def answered_by(sent: Sent) -> str | None:
    """The id of the message that this one answers; None for a part of an answer."""
    words = sent.text.removeprefix(MARK).split()
    return words[1] if len(words) > 2 and words[0] == "answer" and words[-1] == END else None


def is_preview(sent: Sent) -> bool:
    """Whether this is a begun answer in a group."""
    return sent.chat < 0 and sent.text.startswith("answer") and END not in sent.text


async def fuzz(folder: Path, kills: int, seed: int) -> Outcome:
    """One run in its own world."""
    random = Random(seed)
    async with AsyncExitStack() as stack:
        telegram = await stack.enter_async_context(FakeTelegram())
        model = await stack.enter_async_context(echo_model(lambda: random.random() ** 2 * SLOWEST_PIECE))
        home = await stack.enter_async_context(installation(folder, telegram, model.url))
        return await Fuzz(home, telegram, model, random).run(kills)


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began = clock.monotonic()
        outcome = asyncio.run(fuzz(Path(folder), options.kills, options.seed))
    report = {"seed": options.seed, "seconds": round(clock.monotonic() - began, 1), **asdict(outcome)}
    text = json.dumps(report, indent=2)
    sys.stdout.write(f"{text}\n")
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(f"{text}\n")
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
