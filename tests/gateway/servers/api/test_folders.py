"""The person's folder over the API: the rights of the tools, and the bounds of the workspace."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from aiohttp.test_utils import unused_port
from yarl import URL

from goclaw.common.auth.tokens import add_token
from goclaw.common.auth.users import User
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import RealClock
from goclaw.common.core.messages import ToolCall
from goclaw.gateway.servers.api import files as files_module
from goclaw.program.app import open_app
from goclaw.tools.builtin.message import message
from goclaw.tools.builtin.read import read
from tests.gateway.servers.api.calling import PREFIX, Answered, Service, service, world_with
from tests.gateway.servers.calling import ANN, BOB
from tests.harness import Answer, World
from tests.picture_support import png

pytestmark = pytest.mark.promise("P-files-given")
READS = frozenset({"list", "read"})


def at(path: str, part: str = "") -> str:
    return f"/files{part}?path={quote(path, safe='')}"


async def fetched(served: Service, path: str) -> aiohttp.ClientResponse:
    """The head of a download; its bytes are no text."""
    async with aiohttp.ClientSession() as http:
        url = URL(f"{served.url}{PREFIX}{at(path, '/content')}", encoded=True)
        async with http.get(url, headers=served.headers(ANN.key, {})) as response:
            return response


async def added(served: Service, path: str, data: bytes, user: str = ANN.key) -> Answered:
    return await served.send("POST", at(path), data, user=user, Content_Type="text/html")


async def names(served: Service, path: str = ".", user: str = ANN.key) -> list[str]:
    found = await served.get(at(path), user=user)
    return [entry["path"] for entry in found.said["entries"]]


def filled(folder: Path, *answers: Answer, **options: Any) -> World:
    world = world_with(folder, *answers, **options)
    (world.root / "out").mkdir()
    (world.root / "out" / "sales.csv").write_bytes(b"May,3\n")
    (world.root / "page.html").write_bytes(b"<script>alert(1)</script>")
    (world.root / "plot.png").write_bytes(png())
    return world


async def test_a_folder_is_listed_and_files_are_added_fetched_and_deleted(tmp_path: Path) -> None:
    world = filled(tmp_path)
    async with world.running() as core, service(world, core) as served:
        assert await names(served) == ["out", "page.html", "plot.png"]
        [entry] = (await served.get(at("out"))).said["entries"]
        assert entry == {"name": "sales.csv", "path": "out/sales.csv", "size": 6}
        assert (await added(served, "out/new.txt", b"new")).said == {"path": "out/new.txt", "size": 3}
        assert (await added(served, "out/new.txt", b"other")).said["path"] == "out/new-2.txt"
        assert (world.root / "out" / "new.txt").read_bytes() == b"new", "nothing is replaced"
        assert (await served.get(at("out/new.txt", "/content"))).said == "new"
        assert (await served.send("DELETE", at("out/new.txt"))).status == 204
        assert await names(served, "out") == ["out/new-2.txt", "out/sales.csv"]
        told = [(each.action, each.object, each.actor.key) for each in served.audited]
    assert [each for each in told if each[0].startswith("file.")] == [
        ("file.add", "out/new.txt", ANN.key),
        ("file.add", "out/new-2.txt", ANN.key),
        ("file.delete", "out/new.txt", ANN.key),
    ]


async def test_a_name_that_is_not_utf_8_is_left_out_and_the_folder_says_so(tmp_path: Path) -> None:
    world = filled(tmp_path)
    async with world.running() as core, service(world, core) as served:
        assert (await served.get(at("out"))).said["complete"]
        (world.root / "out" / "caf\udce9.txt").write_bytes(b"x")
        listed = await served.get(at("out"))
        assert (listed.status, listed.said["complete"]) == (200, False)
        assert [entry["name"] for entry in listed.said["entries"]] == ["sales.csv"]


@pytest.mark.promise("P-web-html")
async def test_nothing_but_a_picture_is_shown_by_a_browser(tmp_path: Path) -> None:
    world = filled(tmp_path)
    async with world.running() as core, service(world, core) as served:
        for path, shown in (("page.html", False), ("plot.png", True)):
            head = (await fetched(served, path)).headers
            assert head["Content-Disposition"].startswith("inline" if shown else "attachment")
            assert head["Content-Type"] == ("image/png" if shown else "application/octet-stream")
            assert head["X-Content-Type-Options"] == "nosniff" and head["Content-Security-Policy"].startswith("sandbox")


@pytest.mark.parametrize(
    "path",
    ["../secret.txt", "out/../../secret.txt", "/etc/passwd", "link.txt", "way/secret.txt", "a\x00b", "two\nlines",
     "bill\u202efdp.exe", "missing.txt", "out"],
)  # fmt: skip
async def test_no_path_leads_out_and_no_name_misleads(tmp_path: Path, path: str) -> None:
    world = filled(tmp_path)
    (tmp_path / "secret.txt").write_text("secret")
    (world.root / "link.txt").symlink_to(tmp_path / "secret.txt")
    (world.root / "way").symlink_to(tmp_path)
    async with world.running() as core, service(world, core) as served:
        answer = await served.get(at(path, "/content"))
        assert answer.status in (400, 404) and "secret" not in str(answer.said).replace("secret.txt", "")
        assert (await served.send("DELETE", at(path))).status in (400, 404)
        if path not in ("missing.txt", "out", "link.txt"):
            assert (await added(served, path, b"x")).status in (400, 404)
        elif path == "link.txt":
            assert (await added(served, path, b"x")).said["path"] == "link-2.txt"
    assert (tmp_path / "secret.txt").read_text() == "secret" and (world.root / "link.txt").is_symlink()


@pytest.mark.parametrize(
    ("tools", "status"),
    [({"list"}, (200, 403, 403, 403)), ({"list", "read"}, (200, 200, 403, 403)), ({"write"}, (403, 403, 200, 204))],
)
async def test_the_rights_of_the_tools_decide(tmp_path: Path, tools: set[str], status: tuple[int, ...]) -> None:
    world = filled(tmp_path, users=(User(ANN.key, "Ann", allowed_tools=frozenset(tools)), BOB))
    async with world.running() as core, service(world, core) as served:
        answers = [
            await served.get(at(".")),
            await served.get(at("out/sales.csv", "/content")),
            await added(served, "out/new.txt", b"x"),
            await served.send("DELETE", at("out/sales.csv")),
        ]
    assert tuple(each.status for each in answers) == status
    if answers[0].status == 200:
        assert answers[0].said["writable"] is False
    assert (world.root / "out" / "sales.csv").exists() is (status[3] == 403)


async def test_an_argument_that_a_role_fixes_holds_here_too(tmp_path: Path) -> None:
    world = filled(tmp_path, roles={"user": {"inputs": {"read": {"path": "plot.png"}}}})
    async with world.running() as core, service(world, core) as served:
        assert (await fetched(served, "plot.png")).status == 200
        assert (await served.get(at("out/sales.csv", "/content"))).status == 403


async def test_an_empty_file_and_one_too_large_are_refused(tmp_path: Path) -> None:
    world = filled(tmp_path)
    with (world.root / "large").open("wb") as large:
        large.truncate(files_module.MAX_FILE + 1)
    async with world.running() as core, service(world, core) as served:
        assert (await added(served, "new.txt", b"")).status == 400
        assert (await served.get(at("large", "/content"))).status == 404
        assert (await served.send("DELETE", at("nowhere/new.txt"))).status == 404
    assert not (world.root / "nowhere").exists() and not (world.root / "new.txt").exists()


@asynccontextmanager
async def house(folder: Path) -> AsyncIterator[dict[str, aiohttp.ClientSession]]:
    """The whole daemon with a workspace for each person, and their programs."""
    (folder / "state").mkdir(mode=0o700)
    (folder / "state" / "users.json").write_text(json.dumps({"users": {"tui:ann": {}, "tui:bob": {}}}))
    given = {"state_dir": folder / "state", "workspaces": "per-person", "models": {"agent": ["demo"], "summary": []}}
    config = Config.model_validate({**given, "http": {"api": True, "port": unused_port()}})
    tokens = {name: add_token(config.tokens_path, name, f"tui:{name}", RealClock().now()) for name in ("ann", "bob")}
    async with open_app(config):
        base = f"http://127.0.0.1:{config.http.port}"
        async with (
            aiohttp.ClientSession(base, headers={"Authorization": f"Bearer {tokens['ann']}"}) as ann,
            aiohttp.ClientSession(base, headers={"Authorization": f"Bearer {tokens['bob']}"}) as bob,
        ):
            yield {"ann": ann, "bob": bob}


@pytest.mark.promise("P-workspaces-per-person")
async def test_no_persons_files_notes_or_state_are_another_persons(tmp_path: Path) -> None:
    async with house(tmp_path) as people:
        ann, bob = people["ann"], people["bob"]
        async with ann.post("/api/v1/files?path=plan.txt", data=b"swordfish") as answer:
            assert answer.status == 200, await answer.text()
        notes = tmp_path / "state" / "notes" / "tui:ann"
        notes.mkdir(parents=True)
        (notes / "tea.md").write_bytes(b"swordfish")
        place = tmp_path / "state" / "people" / "tui.ann"
        ways = ["plan.txt", "../tui.ann/plan.txt", str(place / "plan.txt"), "shared/../../tui.ann/plan.txt",
                "memory/users/tui:ann/tea.md", "shared/memory/users/tui:ann/tea.md",
                str(tmp_path / "state" / "users.json"), "../../access-tokens.json", "../../goclaw.db"]  # fmt: skip
        for way in ways:
            async with bob.get(f"/api/v1/files/content?path={quote(way, safe='')}") as answer:
                assert answer.status == 404, way
            async with bob.delete(f"/api/v1/files?path={quote(way, safe='')}") as answer:
                assert answer.status == 404, way
        for way in ("plan.txt", "memory/users/tui:ann/tea.md"):
            async with ann.get(f"/api/v1/files/content?path={way}") as answer:
                assert await answer.read() == b"swordfish"


async def test_what_the_agent_hands_over_is_in_the_messages_and_is_fetched_by_its_key(tmp_path: Path) -> None:
    sends = ToolCall("c1", "message", {"action": "send", "text": "**Wait.**", "media_path": "plot.png"})
    answers = Answer("", calls=(sends,), when="go"), Answer("See [it](out/sales.csv).", when="shown in")
    world = filled(tmp_path, *answers, given=[message, read])
    async with world.running() as core, service(world, core) as served:
        place = f"/sessions/{quote(ANN.key, safe='')}"
        await served.post(f"{place}/messages", {"id": "1", "text": "go"})
        await core.settled()
        rows = (await served.get(f"{place}/messages")).said["messages"]
        handed = [each for row in rows for each in row["message"].get("artifacts", ())]
        assert [(each["kind"], each["name"], each["text"]) for each in handed] == [
            ("said", "message.md", "**Wait.**"),
            ("sent", "plot.png", ""),
            ("named", "out/sales.csv", ""),
        ]
        fetched_file = await served.get(f"{place}/media/{handed[2]['blob']}")
        assert fetched_file.said == "May,3\n"
        assert fetched_file.headers["Content-Disposition"] == "attachment; filename*=UTF-8''sales.csv"
        assert (await served.get(f"{place}/media/{handed[2]['blob']}", user=BOB.key)).status == 404
