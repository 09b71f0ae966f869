"""Files in answers at `/v1`: links that the token of the same user fetches, and no other."""

import re
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.messages import ToolCall
from goclaw.tools.builtin.message import message
from goclaw.tools.builtin.read import read
from tests.gateway.servers.calling import ANN, BOB
from tests.gateway.servers.openai.calling import content, service, streamed, world_with
from tests.harness import Answer, World

pytestmark = [pytest.mark.promise("P-openai"), pytest.mark.promise("P-files-given")]
LINK = re.compile(r"\[sales \\\[May\\\]\.csv\]\(http://[^/]+(/v1/files/[^)]+)\)")
NAMING = Answer("Here is [the table](<sales [May].csv>).")
SENDING = (
    Answer(
        "", calls=(ToolCall("c1", "message", {"action": "send", "media_path": "sales [May].csv", "text": "**Wait.**"}),)
    ),
    Answer("Sent."),
)


def made(folder: Path, *answers: Answer, bob: User = BOB) -> World:
    world = world_with(folder, *answers, users=(ANN, bob), given=[message, read])
    (world.root / "sales [May].csv").write_text("May,3\n")
    return world


def link_in(text: str) -> str:
    found = LINK.findall(text)
    assert len(found) == 1, text
    return str(found[0])


@pytest.mark.parametrize("session", ["", ANN.key])
async def test_a_file_that_the_answer_names_is_a_link_for_its_user_alone(tmp_path: Path, session: str) -> None:
    headers: dict[str, Any] = {"X_GoClaw_Session": session} if session else {}
    world = made(tmp_path, NAMING, NAMING)
    async with world.running() as core, service(world, core) as served:
        whole = content(await served.ask("go", Idempotency_Key="1", **headers))
        live = streamed((await served.ask("again", stream=True, **headers)).said)
        for text in (whole, live):
            assert text.startswith(NAMING.text)
            answer = await served.send({}, link_in(text), method="GET")
            assert (answer.status, answer.said) == (200, "May,3\n")
            assert answer.headers["Content-Disposition"].startswith("attachment")
            assert (await served.send({}, link_in(text), method="GET", user=BOB.key)).status == 404
            assert (await served.send({}, link_in(text), method="GET", Authorization="Bearer x")).status == 401
        assert content(await served.ask("go", Idempotency_Key="1", **headers)) == whole


async def test_what_the_agent_sends_is_text_and_link_in_the_answer(tmp_path: Path) -> None:
    world = made(tmp_path, *SENDING, *SENDING)
    async with world.running() as core, service(world, core) as served:
        whole = content(await served.ask("go", X_GoClaw_Session=ANN.key))
        live = streamed((await served.ask("again", stream=True, X_GoClaw_Session=ANN.key)).said)
        for text in (whole, live):
            wait, link, last = text.split("\n\n")
            assert (wait, last) == ("**Wait.**", "Sent.")
            assert (await served.send({}, link_in(link), method="GET")).said == "May,3\n"


async def test_an_id_that_names_no_file_of_a_session_of_the_user_is_not_found(tmp_path: Path) -> None:
    world = made(tmp_path, NAMING)
    async with world.running() as core, service(world, core) as served:
        link = link_in(content(await served.ask("go", X_GoClaw_Session=ANN.key)))
        blob = link.removeprefix("/v1/files/file-")[:64]
        for session in (BOB.key, f"{ANN.key}/agent:x", "", "\x00"):
            wrong = f"/v1/files/file-{blob}{session.encode().hex()}/content"
            assert (await served.send({}, wrong, method="GET")).status == 404, session
        assert (await served.send({}, link.replace(blob, "0" * 64), method="GET")).error["code"] == "file_not_found"
        assert (await served.send({}, "/v1/files/file-zz/content", method="GET")).status == 404


async def test_a_file_goes_with_its_conversation(tmp_path: Path) -> None:
    world = made(tmp_path, NAMING)
    async with world.running() as core, service(world, core) as served:
        link = link_in(content(await served.ask("go", X_GoClaw_Session=ANN.key)))
        await core.sessions.forgetter.forget(ANN.key)
        assert (await served.send({}, link, method="GET")).status == 404
