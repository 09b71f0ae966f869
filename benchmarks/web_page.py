"""The web page in a real browser, beside a static page with the same DOM; and its part of an idle daemon's memory."""

import asyncio
import os
import re
import shutil
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from pathlib import Path

from aiohttp import web
from playwright.async_api import BrowserContext, Error, async_playwright

from benchmarks.figures import Figure, Json, Options
from benchmarks.footprint import SETTLE_SECONDS
from benchmarks.history import write_history
from benchmarks.stage import PEOPLE, START_SECONDS, open_daemon, open_stage_in, open_world, prepare, state_folder
from goclaw.common.auth.tokens import add_token
from goclaw.gateway.servers.web.assets import PAGE_HEADERS
from tests.http_server import serve
from tests.ports import free_port

PERSON = f"telegram:{PEOPLE[0]}"
MESSAGES = 200
LAST = f"ol[start='{MESSAGES // 2 - 1}']"
"""In the newest message of a conversation by `history`, which begins with its number."""
ROUNDS = 12
READABLE = """
last => [...document.querySelectorAll('chat-message')].at(-1)?.querySelector(last)?.innerText && performance.now()
"""
"""The page's own milliseconds since its navigation began, once the newest message is laid out."""
NAMES = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = ("--disable-gpu", "--disable-background-networking", "--disable-component-update", "--no-first-run")
SCRIPTS = re.compile(r"<script\b.*?</script>|<link[^>]*\brel=\"(?:module)?preload\"[^>]*>", re.DOTALL)
VERSION = re.compile(r"/web/v-\w+/")


async def measure_web_page(options: Options) -> list[Figure]:
    """Milliseconds from the navigation to the newest message, of the page and of its DOM as a file, by turns."""
    rounds: list[dict[str, float]] = []
    with state_folder() as folder:
        async with open_world() as world:
            path, config = prepare(folder, world.url, "openai-chat", {"http": {"web": True, "port": free_port()}})
            await write_history(config.database_path, [PERSON], MESSAGES)
            token = add_token(folder / "access-tokens.json", "bench", PERSON, time.time())
            url = f"http://127.0.0.1:{config.http.port}"
            async with open_daemon(world, path), open_browser() as browser:
                await until_ready(browser, url)
                answer = await browser.request.post(f"{url}/web/login", data={"token": token})
                if not answer.ok:
                    raise RuntimeError(f"the page lets nobody in: {await answer.text()}")
                await readable_after(browser, url)  # the first page of a daemon loads what renders Markdown
                async with open_copy(await dom_of(browser, url)) as copy:
                    for _ in range(1 + options.times(ROUNDS)):
                        rounds.append({"page": await readable_after(browser, url)})
                        rounds[-1]["static"] = await readable_after(browser, copy)
    kept = rounds[1:]
    page, static = (statistics.median(each[side] for each in kept) for side in ("page", "static"))
    detail = {"rounds": [{side: round(value, 1) for side, value in each.items()} for each in kept]}
    note = f"page {page:.0f}, static {static:.0f} ms"
    name = "web page, until the newest message is readable"
    return [Figure(name, "x static", page / static, 1.5, "lower", detail, note=note), *await _memory()]


async def _memory() -> list[Figure]:
    """What the page takes of an idle daemon, beyond the HTTP API that it is built on."""
    found = {}
    for switch in ("api", "web"):
        with state_folder() as folder:
            changes: Json = {"http": {switch: True, "port": 0}}
            async with open_stage_in(folder, changes=changes) as (_, daemon):
                await asyncio.sleep(SETTLE_SECONDS)
                found[switch] = daemon.megabytes()
    note = ", ".join(f"{switch} {value:.1f}" for switch, value in found.items()) + " MB"
    return [Figure("PSS idle, http.web beyond http.api", "MB", found["web"] - found["api"], 2, "lower", note=note)]


async def until_ready(browser: BrowserContext, url: str) -> None:
    """Wait for the listener, which opens behind the first poll."""
    async with asyncio.timeout(START_SECONDS):
        while True:
            with suppress(Error):
                if (await browser.request.get(f"{url}/readyz")).ok:
                    return
            await asyncio.sleep(0.02)


async def readable_after(browser: BrowserContext, url: str) -> float:
    """Open a page and close it again."""
    page = await browser.new_page()
    try:
        await page.goto(url, wait_until="commit")
        handle = await page.wait_for_function(READABLE, arg=LAST, polling="raf")
        return float(await handle.json_value())
    finally:
        await page.close()


async def dom_of(browser: BrowserContext, url: str) -> str:
    """Return the page's DOM as it stands when all is drawn, without scripts."""
    page = await browser.new_page()
    await page.goto(url)
    await page.wait_for_function(READABLE, arg=LAST, polling="raf")
    html: str = await page.evaluate("document.documentElement.outerHTML")
    await page.close()
    return f"<!doctype html>{VERSION.sub('/web/', SCRIPTS.sub('', html))}"


@asynccontextmanager
async def open_browser() -> AsyncIterator[BrowserContext]:
    """Start Debian's Chromium; it has no sandbox for root, and opens our own pages alone."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        raise RuntimeError("no Chromium is installed: `apt-get install chromium`")
    switches = [*SWITCHES, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=program, args=switches)
        yield await browser.new_context(viewport={"width": 1440, "height": 900})
        await browser.close()


@asynccontextmanager
async def open_copy(html: str) -> AsyncIterator[str]:
    """Serve a page as a file, with the style sheets and headers of the real one; yields its address.

    By the same server, over the same loopback: what is compared is the page, not the ways to it. With its headers,
    since one of them (`Cross-Origin-Opener-Policy`) makes a browser begin a process, which takes it about 50 ms.
    """

    async def index(_: web.Request) -> web.Response:
        return web.Response(text=html, content_type="text/html", headers=PAGE_HEADERS)

    static = web.static("/web", Path(str(files("goclaw") / "clients" / "web_ui")))
    async with serve(web.get("/", index), static) as address:
        yield address
