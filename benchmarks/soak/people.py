"""Fifty people who follow the script: they write, change their minds, stop, approve and answer what they are asked."""

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from benchmarks.soak.script import Act, Trouble
from benchmarks.soak.telegram import SoakTelegram
from tests.acceptance.model import QUESTION
from tests.acceptance.waiting import clock
from tests.fake_telegram.faults import Fault
from tests.fake_telegram.world import BOT_NAME, Json

PICTURE = b"\xff\xd8\xff\xe0" + bytes(range(200))
APPROVE = re.compile(r"/approve (\w+)")
LOOK_SECONDS = 0.1
QUESTION_SECONDS = 20.0
"""How long somebody writes nothing else because of a question."""
TROUBLE_SECONDS = 1.5
"""How long a fault waits for its call."""


@dataclass
class Said:
    """A message that wants an answer."""

    act: Act
    update: int
    """The update that brought it, of several the last."""
    alone: bool
    """Whether nothing else was open in its chat, so that its time is its own."""
    at: float


@dataclass
class People:
    """Everybody, and what they wrote."""

    telegram: SoakTelegram
    seed: str
    said: dict[str, Said] = field(default_factory=dict)
    commands: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By chat."""
    reacted: Counter[str] = field(default_factory=Counter)
    _spoiling: list[tuple[float, Fault]] = field(default_factory=list)
    late: float = 0.0
    """Seconds that the script was behind at worst: the machine was too slow for it."""

    async def follow(self, script: Iterable[Act], began: float) -> None:
        """Do everything at its time."""
        async with asyncio.TaskGroup() as group:
            for act in script:
                await clock.sleep(max(0.0, began + act.at - clock.monotonic()))
                self.late = max(self.late, clock.monotonic() - began - act.at)
                group.create_task(self._do(act), name=f"{act.name} {act.kind}")

    async def spoil(self, script: Iterable[Trouble], began: float) -> None:
        """Let Telegram fail at its times."""
        for trouble in script:
            await clock.sleep(max(0.0, began + trouble.at - clock.monotonic()))
            now = clock.monotonic()
            # What met no call in time is over: faults that wait for each other would make one long breakdown of many.
            stale = [fault for until, fault in self._spoiling if until < now]
            self.telegram.faults.waiting = [fault for fault in self.telegram.faults.waiting if fault not in stale]
            self._spoiling = [(until, fault) for until, fault in self._spoiling if until >= now]
            self._spoiling.append((now + TROUBLE_SECONDS, self.telegram.fail(trouble.method, **trouble.fault)))

    async def look(self) -> None:
        """Read what comes, and answer what is asked, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                news, self.telegram.news = self.telegram.news, []
                for message in news:
                    group.create_task(self._react(message))
                await clock.sleep(LOOK_SECONDS)

    async def _do(self, act: Act) -> None:
        if act.kind.startswith("/"):
            await self._command(act.chat, act.user, act.kind)
            return
        await self._nothing_asked(act)
        if act.kind == "album":
            pictures = [PICTURE + act.name.encode() + bytes([number]) for number in range(3)]
            alone = self._is_alone(act.chat)
            updates = await self.telegram.world.album(*pictures, text=f"{act.name} album", user=act.user)
            self.said[act.name] = Said(act, updates[-1]["update_id"], alone, clock.monotonic())
        else:
            update = await self._say(act)
            if act.kind == "edit":
                await clock.sleep(Random(f"{self.seed}:{act.name}").uniform(0.01, 0.5))
                number = update["message"]["message_id"]
                await self.telegram.world.edit(act.chat, number, f"{act.name} plain and no more")
            if act.kind == "stop":
                await clock.sleep(Random(f"{self.seed}:{act.name}").uniform(0.3, 3))
                await self._command(act.chat, act.user, "/stop")

    async def _nothing_asked(self, act: Act) -> None:
        """Wait while the person has a question to answer: whatever they wrote would be taken for the answer."""
        until = clock.monotonic() + QUESTION_SECONDS  # it may have been stopped
        while self._is_asked(act) and clock.monotonic() < until:
            await clock.sleep(LOOK_SECONDS)

    def _is_asked(self, act: Act) -> bool:
        asking = [said.act for said in self.said.values() if said.act.kind == "ask" and said.act.chat == act.chat]
        return any(other.user == act.user and other.name not in self.telegram.answered for other in asking[-3:])

    async def _say(self, act: Act) -> Json:
        mention, alone = f"{BOT_NAME} " if act.chat < 0 else "", self._is_alone(act.chat)
        update = await self.telegram.world.say(f"{mention}{act.name} {act.kind}", user=act.user, chat=act.chat)
        self.said[act.name] = Said(act, update["update_id"], alone, clock.monotonic())
        return update

    async def _command(self, chat: int, user: int, command: str) -> None:
        self.commands[chat][command.split()[0]] += 1
        await self.telegram.world.say(command, user=user, chat=chat)

    def _is_alone(self, chat: int) -> bool:
        last = next((said for said in reversed(self.said.values()) if said.act.chat == chat), None)
        return last is None or last.act.name in self.telegram.answered

    async def _react(self, message: Json) -> None:
        """Answer a question or an approval, once, as its asker does."""
        text, chat = message.get("text", ""), message.get("chat", {}).get("id", 0)
        approval, question = APPROVE.search(text), re.search(rf"{QUESTION} (\w+)", text)
        key = approval[1] if approval else question[1] if question else ""
        if not key or self.reacted[key]:
            return
        self.reacted[key] += 1
        await clock.sleep(Random(f"{self.seed}:reaction:{len(self.reacted)}").uniform(0.3, 3))
        if approval:
            await self._command(chat, chat, f"/approve {key}")
        else:
            await self.telegram.world.say("red", user=chat)
