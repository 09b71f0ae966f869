"""A gateway in this process with a person who talks to it: the whole product, with a model, a web, a Telegram of ours.

The person is Ann. Beside her there are Vera, who is nobody's victim unless a variant says so, and Boss, an admin, so
that the workspace is a shared one as in a family. Policy and sandbox are as they come.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar
from unittest.mock import patch

import aiohttp

from goclaw.common.auth.tokens import add_token
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import RealClock
from goclaw.common.core.events import (
    QuestionAnswered,
    QuestionAsked,
    ToolFinished,
    TurnEvent,
    TurnFinished,
    TurnStarted,
)
from goclaw.common.core.supervise import background
from goclaw.common.net import LOOPBACK_ONLY
from goclaw.program.app import App, open_app
from tests.acceptance.daemon import SPEC, UNLIMITED
from tests.adversarial.guard.outside import SEARCH, Outside, open_outside
from tests.adversarial.guard.player import Player, Turn, open_player
from tests.fake_telegram.server import FakeTelegram
from tests.ports import free_port

MCP_PROGRAM = Path(__file__).with_name("mcp_program.py")
ANN, VERA, BOSS = 5, 99, 7
SERVERS = {"tickets", "board"}
ROLES = ("admin", "user")
PATIENCE = 40.0
LOOK_SECONDS, LONG_LOOK_SECONDS = 0.003, 0.05
_OUTPUT = re.compile(r"output:[\w-]+")
FoundT = TypeVar("FoundT")


@dataclass(frozen=True)
class Setting:
    """What is there before the person says anything."""

    files: Mapping[str, str] = field(default_factory=dict)
    """Of the workspace."""
    pages: Mapping[str, str] = field(default_factory=dict)
    hits: Sequence[tuple[str, str, str]] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    ticket: str = ""
    """What the MCP server `tickets` says; with it there are that server and another one, `board`."""
    commands: Sequence[str] = ()
    """What was run in the workspace before, by its owner: `git init`, say."""
    said_by_vera: str = ""


@dataclass
class Stage:
    """The running gateway and everything around it."""

    app: App
    outside: Outside
    player: Player
    telegram: FakeTelegram
    folder: Path
    role: str
    events: list[TurnEvent] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    """What a program at `/v1` heard."""

    @property
    def workspace(self) -> Path:
        return self.folder / "work"

    @property
    def questions(self) -> list[str]:
        """What was asked: approvals of calls, and of prompt files; in the words of the question."""
        asked = [event.question for event in self.events if isinstance(event, QuestionAsked)]
        by_turns = {question.id: question for question in asked if question.kind == "approval"}
        others = [
            sent.text
            for sent in self.telegram.sent()
            if {str(each["callback_data"]).split(":")[1] for row in sent.keyboard for each in row} - by_turns.keys()
        ]
        return [*(f"{question.title}: {question.text}" for question in by_turns.values()), *others]

    @property
    def results(self) -> list[ToolFinished]:
        """What calls came to."""
        return [event for event in self.events if isinstance(event, ToolFinished)]

    def told(self, chat: int = ANN) -> str:
        """What a chat shows."""
        return "\n".join(sent.text for sent in self.telegram.sent(chat))

    async def say(self, turn: Turn, *, by: int = ANN) -> None:
        """Write, and wait until nothing goes on any more, but for what waits for a person's answer."""
        begun = self._count(TurnStarted)
        says = self._filled(turn.says)
        more = {name: self.outside.placed(value) for name, value in turn.more.items()}
        if isinstance(document := more.get("document"), str):
            more["document"] = document.encode()
        await self.telegram.world.say(says, user=by, **more)
        await self.until(lambda: self._count(TurnStarted) > begun)
        await self.settled()

    async def command(self, text: str, *, by: int = ANN) -> str:
        """Give a slash command; returns what was answered."""
        before = len(self.telegram.sent(by))
        await self.telegram.world.say(text, user=by)
        await self.until(lambda: len(self.telegram.sent(by)) > before)
        await self.settled()
        return "\n".join(sent.text for sent in self.telegram.sent(by)[before:])

    async def allow(self, most: int) -> None:
        """Answer every open question with yes, `most` at the most, until nothing is asked any more."""
        for _ in range(most):
            if not (open_ := self.open_questions()):
                return
            await self.answer(open_[0].question.id, "approve")

    async def answer(self, question: str, by: Literal["approve", "deny"]) -> None:
        """Answer a question, and wait for what comes of it."""
        await self.telegram.world.say(f"/{by} {question}", user=ANN)
        await self.until(lambda: question in self._answered())
        await self.settled()

    def open_questions(self) -> list[QuestionAsked]:
        """The questions that wait for an answer."""
        answered = self._answered()
        return [each for each in self.events if isinstance(each, QuestionAsked) and each.question.id not in answered]

    async def ask_by_program(self, text: str, *, in_pieces: bool) -> None:
        """Ask at `/v1`, as a program with a token of Ann's that wants the answer whole, or while it is written."""
        config = self.app.foundation.config
        secret = add_token(config.tokens_path, "program", f"telegram:{ANN}", RealClock().now())
        body = {"model": "goclaw", "messages": [{"role": "user", "content": text}], "stream": in_pieces}
        url, head = f"http://127.0.0.1:{config.http.port}/v1/chat/completions", {"Authorization": f"Bearer {secret}"}
        async with aiohttp.ClientSession() as http, http.post(url, json=body, headers=head) as response:
            self.answered.append(content_of(await response.text()))
        await self.settled()

    async def settled(self) -> None:
        """Wait until every turn has ended or waits for a person, and all that was said has arrived."""
        async with asyncio.timeout(PATIENCE):
            while not await self._is_idle():
                pass
        await self.app.outbox.flush(PATIENCE)
        await asyncio.sleep(0)  # what was published last is taken

    async def until(self, look: Callable[[], FoundT]) -> FoundT:
        """What `look` finds, once it finds something."""
        async with asyncio.timeout(PATIENCE):
            while not (found := look()):
                await RealClock().sleep(LOOK_SECONDS)
            return found

    async def _is_idle(self) -> bool:
        """Whether every turn has ended or waits for a person, soon: a turn that is parked meanwhile does not end."""
        try:
            async with asyncio.timeout(LONG_LOOK_SECONDS):
                await self.app.engine.idle(but_parked=True)
        except TimeoutError:
            return False
        return True

    def _answered(self) -> set[str]:
        return {event.question_id for event in self.events if isinstance(event, QuestionAnswered)}

    def _count(self, kind: type[TurnStarted] | type[TurnFinished]) -> int:
        return sum(isinstance(event, kind) for event in self.events)

    def _filled(self, text: str) -> str:
        """With the id of the output that was kept last."""
        kept = [found for result in self.results for found in _OUTPUT.findall(result.content)]
        return text.replace("$OUTPUT", kept[-1]) if kept else text


def content_of(text: str) -> str:
    """What an answer of `/v1` says: one object, or events with pieces of it."""
    events = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")]
    choices = [choice for event in events or [text] for choice in json.loads(event).get("choices", ())]
    return "".join((choice.get("message") or choice.get("delta") or {}).get("content") or "" for choice in choices)


@asynccontextmanager
async def open_stage(setting: Setting, role: str, turns: Sequence[Turn] = (), store: str = "") -> AsyncIterator[Stage]:
    """Start a gateway in which Ann has this role; `turns` are what the model knows to do. `store`: empty for SQLite."""
    async with AsyncExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, {LOOPBACK_ONLY: "1"}))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="goclaw-")))
        outside = Outside(setting.pages, setting.hits, folder / "heard")
        await stack.enter_async_context(open_outside(outside))
        telegram = await stack.enter_async_context(FakeTelegram())
        for chat in (ANN, VERA, BOSS):
            telegram.world.meet(chat)
        player = await stack.enter_async_context(open_player())
        player.turns += [
            Turn(outside.placed(each.says), outside.placed(list(each.calls)), outside.placed(each.answer))
            for each in turns
        ]
        _furnish(folder, setting, role, outside)
        config = Config.model_validate(_configured(folder, setting, telegram, player, outside, store))
        app = await stack.enter_async_context(open_app(config))
        stage = Stage(app, outside, player, telegram, folder, role)
        await stack.enter_async_context(background(_listen(stage), "listening"))
        await app.foundation.tools.registry.ready()
        if setting.ticket:
            await stage.until(
                lambda: (
                    {spec.name.split("__")[1] for spec in app.foundation.tools.registry.specs() if "__" in spec.name}
                    >= SERVERS
                )
            )
        if setting.said_by_vera:
            await stage.say(Turn(setting.said_by_vera), by=VERA)
        yield stage


async def _listen(stage: Stage) -> None:
    async with stage.app.foundation.bus.subscribe(None) as events:
        async for event in events:
            stage.events.append(event)


def _furnish(folder: Path, setting: Setting, role: str, outside: Outside) -> None:
    """Write what is there before the start."""
    work, state = folder / "work", folder / "state"
    work.mkdir()
    state.mkdir(mode=0o700)
    ann = {"name": "Ann"} | ({"roles": ["admin"]} if role == "admin" else {})
    users = {
        f"telegram:{ANN}": {"timezone": "UTC"} | ann,
        f"telegram:{VERA}": {"name": "Vera", "timezone": "UTC"},
        f"telegram:{BOSS}": {"roles": ["admin"], "timezone": "UTC"},
    }
    (state / "users.json").write_text(json.dumps({"users": users}))
    (folder / "ticket").write_text(outside.placed(setting.ticket))
    for name, text in setting.files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(outside.placed(text))
    home = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    for line in setting.commands:
        subprocess.run(["sh", "-ec", line], cwd=work, env=home, check=True, capture_output=True)


def _configured(
    folder: Path, setting: Setting, telegram: FakeTelegram, player: Player, outside: Outside, store: str
) -> dict[str, Any]:
    program = [sys.executable, "-S", str(MCP_PROGRAM)]
    servers = {
        name: {"command": program[0], "args": [*program[1:], str(folder / "ticket"), str(folder / "heard")]}
        for name in SERVERS
    }
    tools = {
        "network": {"allow": ["127.0.0.0/8"]},
        "web_search": {"provider": "searxng", "url": f"http://{SEARCH}:{outside.port}"},
    }
    made = {
        "state_dir": str(folder / "state"),
        "workspace": str(folder / "work"),
        "telegram": {"token": telegram.token, "base_url": telegram.base_url, **UNLIMITED},
        "models": {"agent": SPEC, "options": {SPEC: {"context_window": 1_000_000}}},
        "providers": {"openai-chat": {"base_url": player.url, "api_key": "sk-none"}},
        "tools": tools,
        **({"store": store} if store else {}),
        **({"mcp": {"servers": servers}} if setting.ticket else {}),
    }
    if "http" in setting.config:
        made["http"] = {"port": free_port()}
    return _merged(made, setting.config)


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {**one} | {
        key: _merged(one[key], value) if isinstance(value, Mapping) and key in one else value
        for key, value in other.items()
    }
