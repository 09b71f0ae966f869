"""Files that change: told to who subscribed and to monitors, of what they may read; watched for nobody else."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceListChangedNotification

from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor
from goclaw.common.workspace import Workspace, hints
from goclaw.gateway.servers.mcp import files
from goclaw.gateway.servers.mcp.backend import Changed
from goclaw.gateway.servers.mcp.files import Interest, snapshot
from tests.gateway.servers.mcp.house import ANN, BOB, House, Listener, house
from tests.gateway.servers.mcp.test_watching import Heard, until

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

NOTE = "workspace:///notes/gr%C3%BCn.md"
Told = list[dict[str, str]]


@asynccontextmanager
async def inhabited(folder: Path, *users: User) -> AsyncIterator[House]:
    """A house in whose workspace somebody was before."""
    async with house(folder, users=users or [User(ANN), User(BOB)]) as home:
        await home.environment.workspace(Actor(ANN, "mcp"))
        yield home


async def test_of_two_wishes_at_once_the_later_one_counts(tmp_path: Path) -> None:
    async with inhabited(tmp_path) as home, asyncio.timeout(10):
        opened, ann = asyncio.Event(), Actor(ANN, "mcp")
        slow = [opened]

        async def workspace(actor: Actor) -> Workspace:
            while slow:
                await slow.pop().wait()
            return await home.environment.workspace(actor)

        interests = files.Interests(workspace)
        first = asyncio.create_task(interests.put("client", ann, [NOTE]))
        await until(lambda: not slow, home)
        await interests.put("client", ann, [NOTE, f"{NOTE}2"])
        opened.set()
        await first
        found = interests.of(ANN)
        assert found and found.uris == {NOTE, f"{NOTE}2"}
        slow.append(opened := asyncio.Event())
        late = asyncio.create_task(interests.put("client", ann, [NOTE]))
        await until(lambda: not slow, home)
        interests.drop("client")
        opened.set()
        await late
        assert interests.of(ANN) is None, "who went is not watched for"


def watches() -> list[str]:
    """The watches that run now."""
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("files of ")]


async def nobody_watches(home: House) -> None:
    await until(lambda: not watches(), home)


@asynccontextmanager
async def monitor(listener: Listener, name: str, user: str) -> AsyncIterator[Told]:
    """What a monitor of that user is told of files, while the block runs."""
    told: Told = []
    headers = {"Authorization": f"Bearer {await listener.token(name, user)}"}
    async with httpx2.AsyncClient(timeout=20) as http:
        async with http.stream("GET", f"{listener.url}/monitor", headers=headers) as answer:
            lines = answer.aiter_lines()
            assert await anext(lines) == ": still at work"

            async def follow() -> None:
                async for line in lines:
                    if line.startswith("data: ") and "workspace:" in line:
                        told.append(json.loads(line.removeprefix("data: ")))

            following = asyncio.create_task(follow())
            try:
                yield told
            finally:
                following.cancel()
                await asyncio.wait({following})


def put(home: House, path: str, text: str) -> None:
    """Write a file at once: a look in between would be another change."""
    ready = home.files.with_name("ready")
    ready.write_text(text)
    ready.replace(home.shown(path))


def change(path: str, event: str) -> dict[str, str]:
    return {"resource": f"workspace:///{path}", "event": event}


async def test_an_older_client_hears_of_its_file_as_it_comes_changes_and_goes(tmp_path: Path) -> None:
    heard = Heard()
    async with inhabited(tmp_path) as home, home.listener() as listener:
        async with listener.client(
            await listener.token("ann", ANN), mode="legacy", message_handler=heard.take
        ) as client:
            put(home, "other.md", "x")
            await client.subscribe_resource(NOTE)
            await until(lambda: watches() == [f"files of {ANN}"], home)
            await client.call_tool("write", {"path": "notes/grün.md", "content": "one"})
            await until(lambda: heard.uris() == [NOTE], home)
            put(home, "other.md", "changed")
            put(home, "notes/grün.md", "two")
            await until(lambda: len(heard.uris()) == 2, home)
            shutil.rmtree(home.files / "notes")
            await until(lambda: len(heard.uris()) == 3, home)
            assert set(heard.uris()) == {NOTE}
            await until(lambda: sum(isinstance(each, ResourceListChangedNotification) for each in heard.all) == 2, home)
            await client.unsubscribe_resource(NOTE)
            await nobody_watches(home)
            await client.subscribe_resource(NOTE)
            await until(watches, home)
        await nobody_watches(home)  # also when the connection ends


async def test_a_stream_of_the_newer_protocol_hears_of_its_files(tmp_path: Path) -> None:
    async with inhabited(tmp_path) as home, home.listener() as listener:
        put(home, "a.txt", "one")
        async with listener.client(await listener.token("ann", ANN), mode="2026-07-28") as client:
            wanted = ["workspace:///a.txt", "workspace:///../secret", "workspace:///"]
            async with client.listen(resource_subscriptions=wanted) as heard:
                assert heard.honored.resource_subscriptions == ["workspace:///a.txt"]
                put(home, "a.txt", "two")  # before the watch can have been laid
                event = asyncio.ensure_future(anext(aiter(heard)))
                await until(event.done, home)
                assert getattr(event.result(), "uri", "") == "workspace:///a.txt"
        await nobody_watches(home)


async def test_monitors_hear_of_every_file_that_is_listed_and_nobody_elses_notes(tmp_path: Path) -> None:
    async with inhabited(tmp_path) as home, home.listener() as listener:
        put(home, "kept.txt", "one")
        put(home, ".gitignore", "*.log\n")
        home.shown(f"memory/users/{ANN}").mkdir(parents=True)
        async with monitor(listener, "a", ANN) as ann, monitor(listener, "b", BOB) as bob:
            await until(lambda: sorted(watches()) == sorted([f"files of {ANN}", f"files of {BOB}"]), home)
            put(home, "kept.txt", "two, longer")
            put(home, "no.log", "x")
            put(home, f"memory/users/{ANN}/diary.md", "mine")
            (home.files / "new").mkdir()
            put(home, "new/b.txt", "x")
            ours = [change("kept.txt", "updated"), change("new/b.txt", "created")]
            diary = change(f"memory/users/{ANN.replace(':', '%3A')}/diary.md", "created")
            await until(lambda: len(ann) >= 3 and len(bob) >= 2, home)
            (home.files / "new" / "b.txt").unlink()
            await until(lambda: len(ann) >= 4 and len(bob) >= 3, home)
            assert sorted(ann[:3], key=str) == sorted([*ours, diary], key=str)
            assert sorted(bob[:2], key=str) == sorted(ours, key=str)
            assert ann[3:] == bob[2:] == [change("new/b.txt", "deleted")]
        await nobody_watches(home)


async def test_a_flood_is_told_as_one_change_of_the_workspace(tmp_path: Path) -> None:
    async with inhabited(tmp_path) as home, home.listener() as listener, monitor(listener, "a", ANN) as told:
        many = tmp_path / "many"
        many.mkdir()
        for number in range(files.MAX_AT_ONCE + 1):
            (many / f"{number}.txt").write_text("x")
        many.replace(home.files / "many")
        await until(lambda: told, home)
        put(home, "many/1.txt", "xyz")
        await until(lambda: len(told) > 1, home)
        assert told == [change("", "updated"), change("many/1.txt", "updated")]


@pytest.mark.promise("P-roles")
async def test_who_may_not_read_hears_nothing_also_when_that_is_taken_away_later(tmp_path: Path) -> None:
    users = [User(ANN), User(BOB, allowed_tools=frozenset({"write"}))]
    updated = Changed("workspace:///a.txt", "updated")
    async with inhabited(tmp_path, *users) as home:
        async with home.client(BOB, mode="legacy") as client:
            with pytest.raises(MCPError, match="there is no resource"):
                await client.subscribe_resource("workspace:///a.txt")
        async with home.offer() as offer:
            hub = offer.hub
            async with hub.listening(Actor(ANN, "mcp")) as ann, hub.listening(Actor(BOB, "mcp")) as bob:
                await until(watches, home)
                assert watches() == [f"files of {ANN}"]
                hub.publish(updated, ANN)
                assert ann.get_nowait() == updated
                home.put_users(User(ANN, allowed_tools=frozenset({"write"})), User(BOB))
                hub.publish(updated, ANN)
                assert ann.empty() and bob.empty()


async def test_without_watches_files_are_looked_at_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_watches(*paths: Path, **options: object) -> object:
        raise OSError(28, "no space left on device")

    class NoWatches:
        def __next__(self) -> object:
            return no_watches()

        def close(self) -> None:
            pass

    monkeypatch.setattr(hints, "watch", lambda *paths, **options: NoWatches())
    async with inhabited(tmp_path) as home, home.listener() as listener, monitor(listener, "a", ANN) as told:
        await until(lambda: "checking for changes every" in caplog.text, home)
        put(home, "a.txt", "x")
        await until(lambda: told, home)
        assert told == [change("a.txt", "created")] and caplog.text.count("checking for changes every") == 1


async def test_of_more_files_than_are_looked_at_those_are_told_that_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_FILES", 3)
    async with inhabited(tmp_path) as home:
        actor = Actor(ANN, "mcp")
        workspace = await home.environment.workspace(actor)
        for number in range(5):
            (home.files / f"{number}.txt").write_text("x")
        seen = await snapshot(workspace, Interest(actor, everything=True, uris=frozenset()))
        assert seen.listed is not None and len(seen.listed) == 3 and not seen.complete
        first = min(seen.listed)
        (home.files / first).write_text("changed")
        put(home, "5.txt", "x")
        now = await snapshot(workspace, Interest(actor, everything=True, uris=frozenset()))
        assert files.differences(seen, now) == {first: "updated"}
