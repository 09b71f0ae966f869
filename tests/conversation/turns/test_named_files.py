"""The files that an answer names: whose rights count, how they come once, and what names none."""

import time
from pathlib import Path
from typing import Any

import pytest

from goclaw.channels.memory import HERE as ME
from goclaw.common.auth.users import User
from goclaw.common.core.events import (
    LOCAL,
    Actor,
    Address,
    Delivery,
    Inbound,
    MessageStored,
    Unattended,
    session_of_agent,
)
from goclaw.common.core.messages import NAMED, AssistantMessage, Foreign, Provenance, SourceKind, ToolCall, ToolResult
from goclaw.conversation.turns.named_files import MAX_FILES, MAX_LOOKED_AT, MAX_TEXT, paths_in
from goclaw.errors import DiskError, DiskFault
from goclaw.llm.scripted import Answer, ScriptedModel
from goclaw.tools.builtin.agent import agent
from goclaw.tools.builtin.message import message
from goclaw.tools.builtin.read import read
from goclaw.tools.hooks.base import HookAnswer, HookEvent, Hooks, Registered
from goclaw.tools.toolkit.attached_files import MAX_FILE
from goclaw.tools.toolkit.sources import BUILT_IN, Named, Sources
from tests.harness import Core, World
from tests.kills import recorded
from tests.parts import GivenModels, Tools
from tests.tables import table

pytestmark = pytest.mark.promise("P-files-given")
TABLE = "[the table](sales.csv)"
HERE = "memory:here"


def world_of(folder: Path, text: str = TABLE, **options: Any) -> World:
    """A world whose agent gives this answer, and can read."""
    world = World(folder, [Answer(text, when="go")], tools=[read], **options)
    (world.root / "sales.csv").write_bytes(b"May,3\n")
    return world


def files(world: World) -> list[Delivery]:
    return [heard.delivery for heard in world.room.all if heard.delivery.media]


async def named(core: Core, session: str = HERE) -> list[str]:
    """The names of the files in the rows of answers."""
    answers = [each for each in await core.messages(session) if isinstance(each, AssistantMessage)]
    return [file.name for answer in answers for file in answer.artifacts]


async def go(core: Core, **options: Any) -> None:
    await core.say("go", **{"message_id": "1", **options})
    await core.settled()


async def test_a_file_follows_the_answer_and_is_kept_as_it_was(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    async with world.running() as core:
        await go(core)
        (world.root / "sales.csv").write_bytes(b"changed")
        [answer] = [each for each in await core.messages() if isinstance(each, AssistantMessage)]
        [file] = answer.artifacts
        assert (file.kind, file.name, file.mime, file.size) == (NAMED, "sales.csv", "text/csv", 6)
        assert await core.sessions.ports.environment.blobs.get(file.blob) == b"May,3\n"
    assert [heard.delivery.text or heard.delivery.media_name for heard in world.room.all] == [TABLE, "sales.csv"]
    [entry] = [each for each in world.audited if each.action == "file.give"]
    assert (entry.object, entry.actor.key, entry.where) == ("sales.csv", ME.key, HERE)


async def test_after_any_crash_the_file_comes_once_and_the_answer_too(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    moments = await recorded(world, go)
    for moment in moments:
        with moment.restored():
            async with world.running() as core:
                await go(core)
                assert await named(core) == ["sales.csv"]
            certain = [heard for heard in world.room.all if not heard.doubt.value]
            assert len([heard for heard in certain if heard.delivery.media]) <= 1
            assert len(files(world)) >= 1
    assert moments[-1].write > 4


@pytest.mark.parametrize(
    "address",
    ["../outside.txt", "/etc/passwd", "file:///etc/passwd", "out%2f..%2f..%2foutside.txt", "link.txt", "folder",
     "empty.txt", "missing.csv", "https://example.org/sales.csv", "//host/sales.csv"],
)  # fmt: skip
async def test_nothing_outside_the_workspace_goes_along(tmp_path: Path, address: str) -> None:
    world = world_of(tmp_path, f"See [this]({address}) and ![this](<{address}>).")
    (tmp_path / "outside.txt").write_text("secret")
    (world.root / "link.txt").symlink_to(tmp_path / "outside.txt")
    (world.root / "folder").mkdir()
    (world.root / "empty.txt").touch()
    async with world.running() as core:
        await go(core)
        assert await named(core) == []
    assert files(world) == []


async def test_a_file_too_large_and_a_sixth_one_stay(tmp_path: Path) -> None:
    world = world_of(tmp_path, " ".join(f"[{number}]({number}.txt)" for number in range(MAX_FILES + 2)))
    with (world.root / "0.txt").open("wb") as large:
        large.truncate(MAX_FILE + 1)
    for number in range(1, MAX_FILES + 2):
        (world.root / f"{number}.txt").write_text(str(number))
    async with world.running() as core:
        await go(core)
        assert await named(core) == [f"{number}.txt" for number in range(1, MAX_FILES + 1)]


@pytest.mark.parametrize(
    ("settings", "may"),
    [
        ({}, True),
        ({"agents": {"main": {"tools": ["-read"]}}}, False),
        ({"policy": {"always_ask": ["read"]}}, False),
        ({"roles": {"user": {"inputs": {"read": {"path": "other.csv"}}}}}, False),
        ({"roles": {"user": {"inputs": {"read": {"path": "sales.csv"}}}}}, True),
    ],
)
async def test_the_rights_of_the_read_tool_decide(tmp_path: Path, settings: dict[str, Any], may: bool) -> None:
    world = world_of(tmp_path, users=[User(ME.key, session=HERE)], **settings)
    async with world.running() as core:
        await go(core)
        assert world.texts()[0] == TABLE
        assert await named(core) == (["sales.csv"] if may else [])
    assert bool(files(world)) is may


async def test_who_may_not_read_is_given_no_file(tmp_path: Path) -> None:
    world = world_of(tmp_path, users=[User(ME.key, session=HERE, allowed_tools=frozenset({"message"}))])
    async with world.running() as core:
        await go(core)
        assert world.texts() == [TABLE] and await named(core) == []


@pytest.mark.parametrize("answer", [HookAnswer(deny="no"), HookAnswer(input={"path": "other.csv"})])
async def test_a_hook_that_forbids_to_read_it_keeps_it(tmp_path: Path, answer: HookAnswer) -> None:
    asked: list[HookEvent] = []

    async def guard(event: HookEvent) -> HookAnswer:
        asked.append(event)
        return answer

    world = world_of(tmp_path)
    world.hooks = Hooks([Registered("guard", frozenset({"pre_tool"}), guard)])
    async with world.running() as core:
        await go(core)
        assert await named(core) == []
    assert [(event.tool, dict(event.input)) for event in asked] == [("read", {"path": "sales.csv"})]


async def test_no_file_goes_to_another_person_with_a_result(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    async with world.running() as core:
        task = Unattended(0, "greeting", signed=True, asked=True)
        inbound = Inbound("t1", ME, HERE, "go", Address("memory", "there"), 0.0, unattended=task)
        await core.engine.submit(inbound)
        await core.settled()
        assert await named(core) == []
    assert files(world) == []


ANN = Actor("memory:ann", "memory")
BY_OTHERS = (Foreign(0, 2, "a page", Provenance(SourceKind.WEB)),)
GROUP, OWN_CHAT, OTHER_CHAT = (
    Address("memory", "here", reply_to="7"),
    Address("memory", "ann"),
    Address("memory", "bob"),
)
WEBHOOK, PROGRAM = Unattended(0, "webhook mail"), Unattended(0, "a program", awaited=True)


@pytest.mark.parametrize(
    ("address", "unattended", "foreign", "given"),
    [
        (GROUP, None, BY_OTHERS, False),
        (GROUP, None, (), True),
        (OTHER_CHAT, WEBHOOK, BY_OTHERS, False),
        (OTHER_CHAT, WEBHOOK, (), True),
        (OWN_CHAT, WEBHOOK, BY_OTHERS, True),
        (Address(LOCAL, ""), WEBHOOK, BY_OTHERS, True),
        (OWN_CHAT, None, BY_OTHERS, True),
        (Address(LOCAL, ""), PROGRAM, BY_OTHERS, True),
    ],
)
async def test_after_words_of_others_no_file_goes_where_others_read(
    tmp_path: Path, address: Address, unattended: Unattended | None, foreign: tuple[Foreign, ...], given: bool
) -> None:
    world = world_of(tmp_path, users=[User(ANN.key)])
    async with world.running() as core:
        session = "program:work" if unattended is PROGRAM else ANN.key
        inbound = Inbound("t1", ANN, session, "go", address, 0.0, foreign=foreign, unattended=unattended)
        await core.engine.submit(inbound)
        await core.settled()
        assert await named(core, session) == (["sales.csv"] if given else [])
    assert bool(files(world)) is (given and address.channel != LOCAL)


@pytest.mark.parametrize(("address", "given"), [(Address("memory", "here"), ["mine"]), (GROUP, [])])
async def test_private_notes_of_others_never_go_along_and_ones_own_to_no_group(
    tmp_path: Path, address: Address, given: list[str]
) -> None:
    notes = {"mine": f"memory/users/{ME.key}/a.md", "others": "memory/users/memory:ann/a.md"}
    world = world_of(tmp_path, " ".join(f"[{name}](<{path}>)" for name, path in notes.items()))
    async with world.running() as core:
        workspace = await core.sessions.ports.environment.workspace(ME)
        for path in notes.values():
            await workspace.write_bytes(path, path.encode())
        assert ME.owner and workspace.viewer is None
        await core.engine.submit(Inbound("t1", ME, HERE, "go", address, 0.0))
        await core.settled()
        assert await named(core) == [notes[name] for name in given]


async def test_a_disk_that_fails_for_a_moment_delays_the_answer_and_loses_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path)
    async with world.running() as core:
        blobs = core.sessions.ports.environment.blobs
        failures = [DiskError("no space left on device", DiskFault.FULL)]
        put = blobs.put

        async def put_later(data: bytes, mime: str) -> str:
            if failures:
                raise failures.pop()
            return await put(data, mime)

        monkeypatch.setattr(blobs, "put", put_later)
        await core.say("go", message_id="1")
        await core.settled_in(world.clock)
        assert await named(core) == ["sales.csv"] and not failures
    assert [delivery.media_name for delivery in files(world)] == ["sales.csv"]


async def test_where_a_hook_hears_what_was_read_nothing_is_handed_over(tmp_path: Path) -> None:
    async def listen(event: HookEvent) -> HookAnswer:
        raise AssertionError(event)

    for match, given in (({"read"}, []), ({"write"}, ["sales.csv"])):
        folder = tmp_path / next(iter(match))
        folder.mkdir()
        world = world_of(folder)
        world.hooks = Hooks([Registered("dlp", frozenset({"post_tool"}), listen, frozenset(match))])
        async with world.running() as core:
            await go(core)
            assert await named(core) == given


async def test_a_few_files_are_looked_at_each_once_and_what_is_not_given_is_not_audited(tmp_path: Path) -> None:
    asked: list[str] = []

    async def listen(event: HookEvent) -> HookAnswer:
        asked.append(event.input["path"])
        return HookAnswer(deny="no" if event.input["path"].startswith("no") else "")

    denied = [f"no{number}.txt" for number in range(MAX_LOOKED_AT)]
    paths = ["sales.csv", "./sales.csv", "same.csv", "missing.csv", *denied]
    world = world_of(tmp_path, " ".join(f"[a]({path})" for path in paths))
    (world.root / "same.csv").write_bytes(b"May,3\n")
    for path in denied:
        (world.root / path).write_text(path)
    world.hooks = Hooks([Registered("listen", frozenset({"pre_tool"}), listen)])
    async with world.running() as core:
        await go(core)
        assert await named(core) == ["sales.csv"]
    assert asked == ["sales.csv", "same.csv", *denied[: MAX_LOOKED_AT - 2]]
    assert [each.object for each in world.audited if each.action == "file.give"] == ["sales.csv"]


async def test_a_schedule_of_a_local_conversation_gives_its_files_where_its_result_is_said(tmp_path: Path) -> None:
    sends = ToolCall("c1", "message", {"action": "send", "media_path": "sales.csv"})
    world = world_of(tmp_path)
    world.script = ScriptedModel([Answer("", calls=(sends,), when="go"), Answer(TABLE)], clock=world.clock)
    world.models, world.tools = GivenModels(world.script), Tools([read, message])
    world.sources = Sources([Named(BUILT_IN, world.tools)])
    session = session_of_agent(HERE, "report-1")
    async with world.running() as core:
        inbound = Inbound("t1", ME, session, "go", Address(LOCAL, HERE), 0.0, unattended=Unattended(0, "report"))
        await core.engine.submit(inbound)
        await core.settled()
        [told] = [each for each in await core.messages(session) if isinstance(each, ToolResult)]
        assert "nobody reads along here" in told.content and told.artifacts == ()
        assert await named(core) == ["sales.csv"], "in the person's own conversation"


async def test_an_agent_that_works_for_another_one_hands_its_files_up(tmp_path: Path) -> None:
    starts = ToolCall("c1", "agent", {"task": "Find it", "description": "Sales"})
    sends = ToolCall("c2", "message", {"action": "send", "media_path": "sales.csv", "channel": LOCAL, "chat_id": HERE})
    world = world_of(tmp_path)
    answers = [Answer("", calls=(starts,), when="go"), Answer("", calls=(sends,), when="Find it"),
               Answer(TABLE, when="nobody reads"), Answer(f"It is {TABLE}.", when="the table")]  # fmt: skip
    world.script = ScriptedModel(answers, clock=world.clock)
    world.models, world.tools = GivenModels(world.script), Tools([read, message, agent])
    world.sources = Sources([Named(BUILT_IN, world.tools)])
    async with world.running() as core:
        await core.engine.submit(Inbound("t1", ME, HERE, "go", Address(LOCAL, HERE), 0.0))
        await core.settled()
        assert await named(core) == ["sales.csv"]
        assert not any("/agent:" in row.session for row in core.seen if isinstance(row, MessageStored)
                       and isinstance(row.message, AssistantMessage) and row.message.artifacts)  # fmt: skip


SCANNED: list[tuple[str, list[str]]] = [
    ("[a](b.csv) ![c](d%20e.png) [f](<g h.txt>)", ["b.csv", "d e.png", "g h.txt"]),
    ('[a](b.csv "title") [c](d(1).txt) [e](f.md#part)', ["b.csv", "d(1).txt", "f.md"]),
    (
        "[a](sandbox:/place/b.csv) [c](file:///place/d.csv) [e](sandbox:f.csv)",
        ["/place/b.csv", "/place/d.csv", "f.csv"],
    ),
    ("[a](https://example.org) [b](mailto:a@b.c) [c](#here) [d](//host/x) [e](javascript:x)", []),
    ("`[a](b.csv)` and ``[c](d.csv)`` [e](f.csv)", ["f.csv"]),
    ("```\n[a](b.csv)\n```\n[c](d.csv)", ["d.csv"]),
    ("~~~~\n[a](b.csv)\n~~~\n[c](d.csv)\n~~~~\n[e](f.csv)", ["f.csv"]),
    ("    [a](b.csv)", []),
    ("[a](\x1b]0;x.csv) [b](c\u202ed.csv) [e]()", []),
]


@table("text, found", SCANNED)
def test_links_and_pictures_outside_code_name_files(text: str, found: list[str]) -> None:
    assert [path for path in paths_in(text) if path] == found


def test_hostile_texts_are_searched_in_a_moment() -> None:
    for text in (
        "[" * MAX_TEXT,
        "](" * (MAX_TEXT // 2),
        "[a](" + "(" * MAX_TEXT,
        "`" * MAX_TEXT,
        "](<" * (MAX_TEXT // 3),
    ):
        began = time.process_time()
        list(paths_in(text))
        assert time.process_time() - began < 1
