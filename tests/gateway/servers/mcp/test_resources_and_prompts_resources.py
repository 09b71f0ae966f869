"""Resources: what may be read by whom, under which name, and how far."""

import base64
import json
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import BlobResourceContents, ResourceTemplateReference, TextResourceContents

from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor
from goclaw.gateway.servers.mcp import resources_and_prompts
from goclaw.tools.hooks.base import HookAnswer, HookEvent, Hooks, Registered
from goclaw.tools.mcp.declared import Declared, Resource
from tests.gateway.servers.mcp.house import ANN, BOB, House, house
from tests.harness import Answer

ERAS = ["legacy", "2026-07-28"]


async def text_of(home: House, uri: str, actor: str = ANN, mode: str = "auto") -> str:
    async with home.client(actor, mode=mode) as client:
        found = (await client.read_resource(uri)).contents[0]
        assert isinstance(found, TextResourceContents)
        return found.text


async def refusal(home: House, uri: str, actor: str = ANN) -> str:
    async with home.client(actor) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
        return caught.value.message


@pytest.mark.parametrize("era", ERAS)
async def test_files_are_listed_and_read_with_their_kind(tmp_path: Path, era: str) -> None:
    async with house(tmp_path) as home, home.client(mode=era) as client:
        await client.call_tool("write", {"path": "notes/grün & co.md", "content": "# Hi\n"})
        (home.files / "dot.png").write_bytes(PICTURE)
        listed = {each.name: each for each in (await client.list_resources()).resources}
        note = listed["notes/grün & co.md"]
        assert (note.uri, note.mime_type) == ("workspace:///notes/gr%C3%BCn%20%26%20co.md", "text/markdown")
        read = (await client.read_resource(note.uri)).contents[0]
        assert isinstance(read, TextResourceContents) and read.text == "# Hi\n" and read.mime_type == "text/markdown"
        picture = (await client.read_resource(listed["dot.png"].uri)).contents[0]
        assert isinstance(picture, BlobResourceContents) and base64.b64decode(picture.blob) == PICTURE
        templates = (await client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in templates] == [
            "transcript://{session}{?after}",
            "workspace:///{+path}",
        ]


async def test_nothing_leads_out_of_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("no")
    async with house(tmp_path) as home:
        (await home.environment.workspace(Actor(ANN, "mcp"))).root.joinpath("link").symlink_to(tmp_path / "secret")
        for uri in ("workspace:///../secret", "workspace:///%2e%2e/secret", "workspace:///link"):
            assert "no" not in (said := await refusal(home, uri)).split() and said
        for uri in ("file:///etc/passwd", "workspace://host/a", "workspace:///", "workspace:///a?b", "what", ""):
            assert "there is no resource" in await refusal(home, uri)


async def test_a_large_file_is_not_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources_and_prompts, "MAX_FILE_BYTES", 10)
    async with house(tmp_path) as home:
        await home.environment.workspace(Actor(ANN, "mcp"))
        (home.files / "long.txt").write_text("0123456789ab")
        assert "long.txt" in await refusal(home, "workspace:///long.txt")


@pytest.mark.promise("P-roles")
async def test_who_may_not_use_read_sees_no_files(tmp_path: Path) -> None:
    async with house(tmp_path, users=[User(ANN, allowed_tools=frozenset({"write"}))]) as home:
        async with home.client() as client:
            await client.call_tool("write", {"path": "a.txt", "content": "x"})
            assert [each.uri for each in (await client.list_resources()).resources] == ["status://goclaw"]
        assert await refusal(home, "workspace:///a.txt") == "there is no resource workspace:///a.txt"
        assert [(each.object, each.allowed) for each in home.audited[-1:]] == [("workspace:///a.txt", False)]


@pytest.mark.promise("P-roles")
async def test_another_users_notes_cannot_be_read(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        async with home.client(BOB) as client:
            kept = await client.call_tool("memory_write", {"key": "plan", "value": "bobs plan"})
            assert not kept.is_error
            note = f"memory/users/{BOB}/MEMORY.md"
            assert not (await client.call_tool("write", {"path": note, "content": "bobs plan"})).is_error
            uri = f"workspace:///{note}"
            assert uri.replace(":7", "%3A7") in [each.uri for each in (await client.list_resources()).resources]
        assert await text_of(home, uri, BOB) == "bobs plan"
        async with home.client(ANN) as client:
            assert not [each.uri for each in (await client.list_resources()).resources if "users/" in each.uri]
            read = await client.call_tool("memory_read", {"key": "plan"})
            assert "bobs plan" not in str(read)
        for name in (uri, "workspace:///memory/users/../users/telegram%3A7/MEMORY.md"):
            assert "bobs plan" not in await refusal(home, name, ANN)


async def test_a_hook_that_guards_read_guards_files(tmp_path: Path) -> None:
    async def guard(event: HookEvent) -> HookAnswer:
        if event.input["path"] == "other.txt":
            return HookAnswer(input={"path": "public.txt"})
        return HookAnswer(deny="not this one") if event.input["path"] == "private.txt" else HookAnswer()

    hooks = Hooks([Registered("guard", frozenset({"pre_tool"}), guard, frozenset({"read"}))])
    async with house(tmp_path, hooks=hooks) as home:
        await home.environment.workspace(Actor(ANN, "mcp"))
        for name in ("private.txt", "public.txt", "other.txt"):
            (home.files / name).write_text(name)
        assert "not this one" in await refusal(home, "workspace:///private.txt")
        assert await refusal(home, "workspace:///other.txt") == "there is no resource workspace:///other.txt"
        assert await text_of(home, "workspace:///public.txt") == "public.txt"


@pytest.mark.promise("P-roles")
async def test_conversations_are_read_by_who_may_read_them(tmp_path: Path) -> None:
    users = [User(ANN), User("memory:here"), User("tui:boss", roles=frozenset({"admin"}))]
    async with house(tmp_path, users=users, answers=[Answer("Hello, person")]) as home:
        await home.core.say("hi there")
        await home.core.settled()
        session = home.core.seen[0].session
        uri = f"transcript://{session.replace(':', '%3A')}"
        async with home.client("tui:boss") as client:
            assert uri in [each.uri for each in (await client.list_resources()).resources]
        found = json.loads(await text_of(home, uri, "tui:boss"))
        assert [(row["role"], row["text"]) for row in found["rows"]] == [
            ("user", "hi there"),
            ("assistant", "Hello, person"),
        ]
        after = json.loads(await text_of(home, f"{uri}?after={found['rows'][0]['row']}", "tui:boss"))
        assert [row["text"] for row in after["rows"]] == ["Hello, person"]
        assert json.loads(await text_of(home, found["next"], "tui:boss"))["rows"] == []
        assert await refusal(home, uri, ANN) == f"there is no resource {uri}"
        assert await refusal(home, "transcript://tui%3Anobody", "tui:boss") == (
            "there is no resource transcript://tui%3Anobody"
        )
        async with home.client(ANN) as client:
            assert uri not in [each.uri for each in (await client.list_resources()).resources]
            reference = ResourceTemplateReference(uri="transcript://{session}{?after}")
            assert (await client.complete(reference, {"name": "session", "value": ""})).completion.values == []


async def test_the_status_says_how_the_daemon_stands(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        assert json.loads(await text_of(home, "status://goclaw"))["running"] is True


async def test_nothing_of_ours_is_offered_where_the_configuration_says_so(tmp_path: Path) -> None:
    async with house(tmp_path, resources=False) as home, home.client() as client:
        assert (await client.list_resources()).resources == []
        assert (await client.list_resource_templates()).resource_templates == []
        assert "there is no resource" in await refusal(home, "status://goclaw")


async def test_code_adds_resources_for_whom_it_wants(tmp_path: Path) -> None:
    async def read(actor: Actor) -> str:
        return f"for {actor.key}"

    declared = Declared(resources=(Resource("readme", "docs://readme", "text/markdown", read, may=_is_ann),))
    async with house(tmp_path, declared=declared, resources=False) as home:
        assert await text_of(home, "docs://readme") == f"for {ANN}"
        assert await refusal(home, "docs://readme", BOB) == "there is no resource docs://readme"


async def test_a_long_list_comes_in_pages(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        await home.environment.workspace(Actor(ANN, "mcp"))
        for number in range(450):
            (home.files / f"{number:03}.txt").touch()
        async with home.client() as client:
            seen, cursor, pages = list[str](), None, 0
            while True:
                found = await client.list_resources(cursor=cursor)
                seen += [each.name for each in found.resources]
                pages, cursor = pages + 1, found.next_cursor
                if cursor is None:
                    break
            assert pages == 3 and len([name for name in seen if name.endswith(".txt")]) == 450 == len(
                {name for name in seen if name.endswith(".txt")}
            )
            with pytest.raises(MCPError, match="cursor is not from this server"):
                await client.list_resources(cursor="%%%")


def _is_ann(actor: Actor) -> bool:
    return actor.key == ANN


PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
