"""Files: sent ahead of a message, seen by the model as those of a chat are, and read back by those who may."""

import asyncio
import threading
from io import BytesIO
from pathlib import Path
from urllib.parse import quote

import aiohttp
import pytest
from yarl import URL

from goclaw.common.core.messages import UserMessage
from goclaw.durable.store import uploads as uploads_module
from goclaw.durable.store.uploads import TooManyUploads, Uploads
from goclaw.gateway.servers.api import files as files_module
from goclaw.gateway.servers.api.files import Kind, kind_of
from tests.gateway.servers.api.calling import PREFIX, Answered, Service, at, service, world_with
from tests.gateway.servers.calling import ANN, BOB
from tests.harness import Answer
from tests.picture_support import jpeg, png

pytestmark = pytest.mark.promise("P-api-files")

PNG, JPEG = png(), jpeg()
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


async def sent(
    served: Service, data: bytes, name: str = "a.txt", *, user: str = ANN.key, session: str = ""
) -> Answered:
    path = f"{at(session or user)}/files?name={quote(name, safe='')}"
    return await served.send("POST", path, data, user=user, Content_Type="text/html")


async def said(served: Service, files: list[str], text: str = "", name: str = "1", user: str = ANN.key) -> Answered:
    body = {"id": name, "text": text, "files": files}
    return await served.post(f"{at(user)}/messages", body, user=user)


async def test_a_picture_is_seen_and_a_document_is_read(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("I see."))
    async with world.running() as core, service(world, core) as served:
        picture = await sent(served, PNG, "cat.png")
        note = await sent(served, b"Buy milk.", "list.txt")
        assert (picture.status, picture.said["type"], picture.said["size"]) == (200, "image/png", len(PNG))
        assert note.said["type"] == "text/plain"
        assert (await said(served, [picture.said["file"], note.said["file"]], "Look")).status == 202
        await core.settled()
        asked = next(message for message in await core.messages(ANN.key) if isinstance(message, UserMessage))
    assert [image.mime for image in asked.images] == ["image/png"]
    assert asked.text.startswith("Look") and "Buy milk." in asked.text and "list.txt" in asked.text
    assert [piece.origin for piece in asked.foreign] == ["the file list.txt"]


async def test_a_message_may_have_files_and_no_text_but_not_neither(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("Thanks."))
    async with world.running() as core, service(world, core) as served:
        note = await sent(served, b"x", "a.txt")
        assert (await said(served, [note.said["file"]])).status == 202
        await core.settled()
        assert (await said(served, [], " ", "2")).status == 400
        assert (await said(served, [note.said["file"]] * 11, "", "3")).status == 400


async def test_files_outlive_a_crash_before_and_after_their_message(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("One."), Answer("Two."))
    async with world.running() as core, service(world, core) as served:
        note = await sent(served, b"Buy milk.", "list.txt")
    async with world.running() as core, service(world, core) as served:
        assert (await said(served, [note.said["file"]])).status == 202
        assert (await said(served, [note.said["file"]])).status == 202, "sent again: the same answer"
        await core.settled()
        asked = [message for message in await core.messages(ANN.key) if isinstance(message, UserMessage)]
    assert len(asked) == 1 and "Buy milk." in asked[0].text


async def test_another_persons_file_is_none(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        note = await sent(served, b"secret")
        for wrong in (note.said["file"], "0" * 32):
            answer = await said(served, [wrong], user=BOB.key)
            assert (answer.status, answer.problem["field"]) == (404, "files")
        for wrong in ("", "../x", "g" * 32, note.said["file"].upper()):
            assert (await said(served, [wrong])).status in (400, 404)


async def test_files_go_into_sessions_that_one_may_write_in_only(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        assert (await sent(served, b"x", session=BOB.key)).status == 404
        assert (await sent(served, b"x", session="nowhere")).status == 404


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        assert (await sent(served, b"")).status == 400
        path = f"{at(ANN.key)}/files"
        assert (await served.send("POST", path, b"x")).status == 400, "without a name"
        assert (await served.send("POST", f"{path}?name=a&x=1", b"x")).status == 400
        assert (await served.send("POST", f"{path}?name=a", b"x", Content_Encoding="gzip")).status == 415
        large = await served.send("POST", f"{path}?name=a", b"x" * (files_module.MAX_FILE + 1))
        assert large.status == 413 and large.problem["status"] == 413
        assert (await served.send("POST", f"{path}?name=a", b"x" * (5 << 20))).status == 200
        assert (await served.send("POST", f"{at(ANN.key)}/messages", b"x" * (5 << 20))).status == 413


async def test_a_body_that_is_cut_off_leaves_nothing(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        head = (
            f"POST {PREFIX}{at(ANN.key)}/files?name=a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n"
            f"Authorization: Bearer {served.secret()}\r\n\r\nhalf"
        )
        writer.write(head.encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        assert (await sent(served, b"whole")).status == 200
        assert len(list((world.config.state_dir / "blobs" / "uploads").iterdir())) == 1


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a\x00b\n\x1b[31mc.txt", "\u202etxt.exe", "[system] <b>.txt", "-rf"]
)
async def test_no_name_of_a_file_acts(tmp_path: Path, name: str) -> None:
    world = world_with(tmp_path, Answer("Thanks."))
    async with world.running() as core, service(world, core) as served:
        note = await sent(served, b"text", name)
        assert note.status == 200 and note.said["name"].isprintable()
        await said(served, [note.said["file"]])
        await core.settled()
        asked = next(message for message in await core.messages(ANN.key) if isinstance(message, UserMessage))
    head = asked.text.splitlines()[0]
    assert head.isprintable() and head.count("[") == 1 and ".." not in head.partition("saved as ")[2]


async def test_one_person_sends_a_bounded_number_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads_module, "MAX_FILES", 2)
    monkeypatch.setattr(uploads_module, "MAX_BYTES", 10)
    world = world_with(tmp_path)
    async with world.running() as core:
        blobs = core.sessions.ports.environment.blobs
        uploads = Uploads(tmp_path / "uploads", blobs, world.clock)
        for _ in range(2):
            await uploads.add("a", "s", b"1", name="n", mime="m", kind="document")
        with pytest.raises(TooManyUploads, match="2 files"):
            await uploads.add("a", "s", b"1", name="n", mime="m", kind="document")
        await uploads.add("b", "s", b"1", name="n", mime="m", kind="document")
        with pytest.raises(TooManyUploads, match="per hour"):
            await uploads.add("b", "s", b"1" * 10, name="n", mime="m", kind="document")
        world.clock.advance(3_601)
        await uploads.add("a", "s", b"1", name="n", mime="m", kind="document")
        world.clock.advance(24 * 3_600)
        await uploads.add("a", "s", b"2", name="n", mime="m", kind="document")
        assert len(list((tmp_path / "uploads").iterdir())) == 1, "the others are over"


async def test_a_file_that_was_never_sent_goes_and_one_that_waits_stays(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("Thanks."))
    async with world.running() as core, service(world, core) as served:
        blobs = core.sessions.ports.environment.blobs
        note = await sent(served, b"never sent")
        world.clock.advance(61)
        await blobs.sweep(60)
        assert (await said(served, [note.said["file"]], "Look")).status == 404


async def test_a_picture_is_shown_and_everything_else_is_a_download(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("I see."))
    async with world.running() as core, service(world, core) as served:
        picture = await sent(served, PNG, "cat.png")
        await said(served, [picture.said["file"]], "Look")
        await core.settled()
        rows = (await served.get(f"{at(ANN.key)}/messages")).said["messages"]
        blob = rows[0]["message"]["images"][0]["blob"]
        path = f"{at(ANN.key)}/media/{blob}"
        found = await bytes_of(served, path)
        assert found.status == 200 and found.headers["Content-Type"] == "image/png"
        assert found.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
        assert found.headers["X-Content-Type-Options"] == "nosniff"
        # A browser asks each time: its copy is not for the next person, nor for one who may not read any more.
        assert found.headers["Cache-Control"] == "private, no-cache"
        known = {"If_None_Match": found.headers["ETag"]}
        assert (await served.send("GET", path, user=ANN.key, **known)).status == 304
        assert (await served.send("GET", path, user=BOB.key, **known)).status == 404
        assert (await served.get(path, user=BOB.key)).status == 404
        assert (await served.get(f"{at(BOB.key)}/media/{blob}", user=BOB.key)).status == 404
        assert (await served.get(f"{at(ANN.key)}/media/{'0' * 64}")).status == 404
        assert (await served.get(f"{at(ANN.key)}/media/..%2f..%2fconfig.yaml")).status == 400


async def test_a_picture_of_a_million_blocks_does_not_hold_up_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set[int]()

    def noted(data: bytes, name: str) -> tuple[Kind, str]:
        threads.add(threading.get_ident())
        return kind_of(data, name)

    monkeypatch.setattr(files_module, "kind_of", noted)
    frame = b"\x2c" + bytes(8) + b"\x00\x02"
    many = b"GIF89a" + b"\x01\x00\x01\x00\x00\x00\x00" + frame + b"\x01\x01" * 2_000_000 + b"\x00;"
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        sent = await large(served, f"{at(ANN.key)}/files?name=a.gif", many)
        assert sent.said["type"] == "image/gif"
        assert threads and threading.get_ident() not in threads, "the loop goes on meanwhile"


async def test_only_files_are_as_large_as_files(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        body = b'{"answer": "' + b"a" * (5 << 20) + b'"}'
        assert (await large(served, "/questions/a%2Ffiles", body)).status == 413


async def large(served: Service, path: str, body: bytes) -> Answered:
    url = URL(f"{served.url}{PREFIX}{path}", encoded=True)
    headers = served.headers(ANN.key, {}) | {"Content-Type": "application/json"}
    async with aiohttp.ClientSession() as http, http.post(url, data=BytesIO(body), headers=headers) as response:
        return Answered(response.status, await response.json(content_type=None), response.headers)


async def bytes_of(served: Service, path: str) -> Answered:
    headers = served.headers(ANN.key, {})
    async with aiohttp.ClientSession() as http, http.get(f"{served.url}{PREFIX}{path}", headers=headers) as response:
        return Answered(response.status, await response.read(), response.headers)


@pytest.mark.parametrize(
    ("data", "name", "kind", "mime"),
    [
        (PNG, "a.txt", "image", "image/png"),
        (JPEG, "a.html", "image", "image/jpeg"),
        (PNG[:40], "a.png", "document", "application/octet-stream"),
        (b"\x89PNG\r\n\x1a\n<script>alert(1)</script>", "a.html", "document", "text/html"),
        (b"GIF89a/*<svg onload=alert(1)>*/=1;", "a.gif", "document", "application/octet-stream"),
        (SVG, "a.svg", "document", "application/octet-stream"),
        (SVG, "a.png", "document", "application/octet-stream"),
        (b"<html>", "a", "document", "application/octet-stream"),
        (b"OggS", "a.ogg", "audio", "audio/ogg"),
        (b"x", "a.mp4", "video", "video/mp4"),
    ],
)
def test_a_file_is_what_its_bytes_are(data: bytes, name: str, kind: str, mime: str) -> None:
    assert kind_of(data, name) == (kind, mime)
