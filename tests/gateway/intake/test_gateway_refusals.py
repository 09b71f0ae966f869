"""Refusals that a person without rights reads: words alone, no file, no key of the configuration, no path."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.users import User
from goclaw.common.config.keys import keys
from goclaw.common.config.schema import Config
from goclaw.common.core.catalog import COMMANDS
from goclaw.common.core.events import Actor
from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.conversation.turns.turn_context import ASK_AN_ADMIN
from goclaw.errors import ModelErrorKind, ToolError
from goclaw.llm.failures import fail as failure_of
from goclaw.tools.builtin.message import message
from goclaw.tools.builtin.read import read
from goclaw.tools.builtin.write import write
from tests.harness import Answer, Core, World
from tests.parts import acting

CEM, ANN = Actor("memory:here", "memory", name="Cem"), Actor("memory:2", "memory", name="Ann")
BOSS = Actor("memory:3", "memory", name="Bo")
SECTIONS = sorted({re.split(r"[.\[]", key.dotted)[0] for key in keys(Config) if "." in key.dotted})
NOT_FOR_PEOPLE = re.compile(rf"users\.json|config\.yaml|allowedTools|\b(?:{'|'.join(SECTIONS)})\.[a-z_<*]")

COMMANDS_REFUSED = (
    *("/mode bypass", "/agent nobody", "/model other:model", "/pair approve AAAA1111 guest", "/approve tool:nope"),
    *("/forget telegram:1", "/forget before 2026-01-01 everywhere", "/approvals remove 7", "/guard clear other"),
    *("/schedule list --user memory:2", "/schedule run nothing", "/schedule pause tea", "/heartbeat now"),
    *("/schedule add a --at 20m --to memory:2 hello", "/schedule add b --at 20m --to notify:door hello"),
    *("/tool exec", "/tools secret", "/cleartool nope", "/queue nonsense", "/blocked nope", "/nonsense"),
)
"""What people order that they may not, or that there is not; with the role below."""
CHILD = {"tools": ["read", "write", "message", "look", "fail"], "approves": "none", "other_chats": False}


async def look() -> str:
    return "nothing"


async def fail() -> str:
    raise ToolError("file not found: x")


def world_of(folder: Path, answers: list[Answer], **config: Any) -> World:
    users = [User(CEM.key, name="Cem", roles=frozenset({"child"}), timezone="UTC"), User(ANN.key, name="Ann")]
    users.append(User(BOSS.key, name="Bo", roles=frozenset({"admin"})))
    roles = {"child": CHILD | config.pop("child", {})}
    tools = [read, write, message, acting("look", look), acting("fail", fail)]
    return World(folder, answers, tools=tools, users=users, roles=roles, **config)


def assert_words(texts: list[str], world: World) -> None:
    """Each is something, and nothing of it is for admins alone."""
    assert texts and all(texts)
    found = {text: NOT_FOR_PEOPLE.findall(text) for text in texts}
    assert {text: names for text, names in found.items() if names or str(world.folder / "state") in text} == {}


async def results(core: Core) -> list[str]:
    return [message.content for message in await core.messages() if isinstance(message, ToolResult)]


async def test_a_refused_command_is_refused_in_words(tmp_path: Path) -> None:
    world = world_of(tmp_path, [], child={"commands": ["help"]})
    async with world.running() as core:
        said = [await core.command(f"/{command} x", actor=CEM) for command in COMMANDS if command != "help"]
    assert_words(said, world)
    assert {text.split(":")[0] for text in said} == {"Unknown command"}, "each is refused"


async def test_what_a_command_does_not_do_for_a_person_is_said_in_words(tmp_path: Path) -> None:
    world = world_of(tmp_path, [], agents={"kinds": {"reader": {}}})
    async with world.running() as core:
        said = [await core.command(order, actor=CEM) for order in COMMANDS_REFUSED]
    assert_words(said, world)


async def test_a_refused_call_is_refused_in_words(tmp_path: Path) -> None:
    state = tmp_path / "state"
    calls = [
        *(("unknown", {}), ("exec", {"command": "true"}), ("read", {"path": "../state/users.json"})),
        *(("read", {"path": "/etc/passwd"}), ("write", {"path": str(state / "x"), "content": "x"})),
        ("message", {"action": "send", "channel": "memory", "target": "2", "text": "hello"}),
    ]
    answer = Answer(calls=tuple(ToolCall(f"c{place}", name, given) for place, (name, given) in enumerate(calls)))
    world = world_of(tmp_path, [answer, Answer("No."), answer, Answer("No.")], limits={"failed_calls": 50})
    async with world.running() as core:
        await core.say("go", actor=CEM)
        await core.settled()
        await core.command("/mode plan", actor=CEM)
        await core.say("go on", actor=CEM)
        await core.settled()
        told = await results(core)
    assert len(told) == 2 * len(calls)
    # What a person typed is theirs to read again.
    assert_words([text.replace(str(state / "x"), "").replace("../state/users.json", "") for text in told], world)
    assert all("error" in json.loads(text) for text in told)


async def test_a_document_that_is_too_large_is_refused_in_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    answer = Answer(calls=(ToolCall("c", "read", {"path": "a.pdf"}),))
    world = world_of(tmp_path, [answer, Answer("No.")], documents={"max_file_mb": 1})
    world.root.mkdir(parents=True, exist_ok=True)
    (world.root / "a.pdf").write_bytes(b"%PDF-" + bytes(2 << 20))
    async with world.running() as core:
        await core.say("read it", actor=CEM)
        await core.settled()
        told = await results(core)
    assert_words(told, world)
    assert "a.pdf is not read: it has more than 1 MB" in told[0] and "documents.max_file_mb" in caplog.text


LOOK, FAIL = [Answer(calls=(ToolCall("c", "look", {}),))] * 9, [Answer(calls=(ToolCall("c", "fail", {}),))] * 9
LIMITS: list[tuple[dict[str, Any], list[Answer], str]] = [
    ({"limits": {"tool_calls": 2}}, LOOK, "tool calls in one turn"),
    ({"limits": {"repeated_calls": 2}}, LOOK, "same look call"),
    ({"limits": {"failed_calls": 2}}, FAIL, "failed tool calls in a row"),
    ({"limits": {"turn_seconds": 2}}, [Answer("Let me", seconds=60)], "longer than 2 s"),
    ({"limits": {"turn_tokens": 10}}, LOOK, "this turn used"),
    ({"limits": {"daily_tokens": 10}}, LOOK, "your requests today used"),
    ({"child": {"daily_tokens": 10}}, LOOK, "your requests today used"),
    (
        {"policy": {"mode": "plan", "deny_ends_turn": ["write"]}},
        [Answer(calls=(ToolCall("c", "write", {"path": "a", "content": "b"}),))],
        "was refused",
    ),
    (
        {"agents": {"main": {"policy": {"on_missing_fields": "finalize"}}}},
        [Answer(calls=(ToolCall("c", "read", {}),))],
        "lacked required fields",
    ),
    ({"agents": {"main": {"policy": {"max_tool_calls": 1}}}}, LOOK, "tool calls in one turn"),
    ({"agents": {"main": {"policy": {"timing": {"plan": 0.05}}}}}, [Answer("I", seconds=60)], "longer than 0.05 s"),
]


@pytest.mark.promise("P-limits")
@pytest.mark.parametrize(("config", "answers", "words"), LIMITS, ids=[str(config) for config, _, _ in LIMITS])
async def test_a_limit_that_is_reached_is_said_in_words(
    tmp_path: Path, config: dict[str, Any], answers: list[Answer], words: str
) -> None:
    world = world_of(tmp_path, answers, **config)
    async with world.running() as core:
        await core.say("go", actor=CEM)
        await core.settled()
    assert_words(world.texts(), world)
    assert words in world.texts()[-1]


@pytest.mark.parametrize("kind", [ModelErrorKind.AUTH, ModelErrorKind.NOT_FOUND])
async def test_what_only_an_admin_can_mend_is_said_in_words_and_an_admin_reads_the_key(
    tmp_path: Path, kind: ModelErrorKind, caplog: pytest.LogCaptureFixture
) -> None:
    why = str(failure_of(kind, "openai-chat:gpt"))
    assert NOT_FOR_PEOPLE.search(why), "as admins read it"
    failing = Answer(error=kind, message=why)
    world = world_of(tmp_path, [failing, failing])
    async with world.running() as core:
        await core.say("go", actor=CEM)
        await core.settled()
        assert world.texts() == [ASK_AN_ADMIN]
        assert why in caplog.text
        await core.say("go", actor=BOSS, session=BOSS.key, chat="3")
        await core.settled()
    assert world.texts()[-1].endswith(why)
