"""The page itself: what stands in it for the browser that is logged in, and for no other."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.messages import AssistantMessage, UserMessage
from goclaw.durable.store.transcripts import Origin, rows_of
from goclaw.gateway.servers.web.live import FIRST_CHARACTERS, FIRST_ROWS
from tests.gateway.servers.calling import ANN, BOB
from tests.gateway.servers.web import hostile_texts
from tests.gateway.servers.web.calling import Heard, serving_pages, web_world
from tests.harness import Core

DATA = re.compile(r'<script id="here" type="application/json">(.*?)</script>', re.DOTALL)


def here(heard: Heard) -> Mapping[str, Any] | None:
    """Return the data in a page; None: it has none."""
    assert heard.status == 200
    found = DATA.findall(heard.said.decode())
    assert len(found) == 1
    data: Mapping[str, Any] | None = json.loads(found[0]) if found[0] else None
    return data


async def say(core: Core, *texts: str) -> None:
    """Let Ann's session have answers."""
    rows = [
        row
        for number, text in enumerate(texts)
        for row in rows_of(AssistantMessage(text), Origin(ANN.key, f"t{number}", "model:0", 1.0))
    ]
    await core.database.write(core.transcripts.ensure_session(ANN.key, 0.0), *rows)


@pytest.mark.promise("P-web-devices")
async def test_the_page_of_a_browser_that_is_logged_in_has_its_messages_and_no_other_has(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        await say(core, "*first*", "second")
        ann, bob, nobody = await pages.entered(), await pages.entered(BOB.key), pages.browser()
        await ann.get("/")  # loads what renders
        heard = await ann.get("/")
        found = here(heard)
        assert found is not None and found["person"] == ANN.key and found["csrf"] == ann.csrf
        assert [row["html"] for row in found["rows"]] == ["<p><em>first</em></p>\n", "<p>second</p>\n"]
        assert heard.headers["Cache-Control"] == "no-store" and "ETag" not in heard.headers
        assert "default-src 'none'" in heard.headers["Content-Security-Policy"]
        of_bob = here(await bob.get("/"))
        assert of_bob is not None and (of_bob["person"], of_bob["rows"]) == (BOB.key, [])
        assert here(await nobody.get("/")) is None
        assert here(await ann.get("/", Sec_Fetch_Site="cross-site")) is None
        assert here(await nobody.get("/", Cookie=f"goclaw_{pages.port}=goclaw_{'a' * 43}")) is None
        assert here(await nobody.get("/", Authorization=f"Bearer {pages.secret()}")) is None
        await ann.post("/web/logout")
        assert here(await ann.get("/")) is None


@pytest.mark.promise("P-web-html")
async def test_no_text_ends_the_data_in_the_page(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    texts = ["</script><script>alert(1)</script>", "<!--<script>", "\\</script>", *hostile_texts.SCRIPTS[:30]]
    async with world.running() as core, serving_pages(world, core) as pages:
        await say(core, *(text.replace("\0", "") for text in texts))
        browser = await pages.entered()
        await browser.get("/")
        heard = await browser.get("/")
        found = here(heard)
        assert found is not None
        assert [row["message"]["text"] for row in found["rows"]] == [text.replace("\0", "") for text in texts]
        assert heard.said.count(b"<script") == 2, "that of the data, and the one module"


async def test_so_much_stands_in_the_page_as_keeps_nobody_waiting(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        await say(core, *(f"{number}" for number in range(FIRST_ROWS + 5)))
        browser = await pages.entered()
        await browser.get("/")
        found = here(await browser.get("/"))
        assert found is not None and [row["message"]["text"] for row in found["rows"]] == [
            f"{number}" for number in range(5, FIRST_ROWS + 5)
        ]
        origin = Origin(ANN.key, "long", "user", 1.0)
        await core.database.write(*rows_of(UserMessage("long " * (FIRST_CHARACTERS // 5)), origin))
        found = here(await browser.get("/"))
        assert found is not None and found["rows"] == [], "the WebSocket has it"
