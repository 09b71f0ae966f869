"""The cookie: its name, its attributes, and that only our own page can use it."""

from pathlib import Path

import pytest

from tests.gateway.servers.calling import ANN, BOB
from tests.gateway.servers.web.calling import serving_pages, web_world
from tests.tables import table

pytestmark = pytest.mark.promise("P-web-cookie")
PROXIED = {"trusted_proxies": ["127.0.0.1"], "public_url": "https://claw.example.org", "hosts": ["other.example.org"]}


@table(
    "host, headers, name, secure",
    [
        ("127.0.0.1", {}, "goclaw_{port}", False),
        ("localhost", {}, "goclaw_{port}", False),
        ("claw.example.org", {}, "__Host-goclaw", True),
        ("other.example.org", {"X-Forwarded-Proto": "https"}, "__Host-goclaw", True),
    ],
)
async def test_a_cookie_is_as_closed_as_the_way_to_the_page_allows(
    tmp_path: Path, host: str, headers: dict[str, str], name: str, secure: bool
) -> None:
    world = web_world(tmp_path, http=PROXIED)
    async with world.running() as core, serving_pages(world, core) as pages:
        browser = pages.browser(host)
        heard = await browser.post("/web/login", {"token": pages.secret()}, **headers)
        assert heard.status == 200, heard.said
        (found, morsel) = next(iter(heard.cookies.items()))
        assert found == name.format(port=pages.port)
        assert morsel["httponly"] and morsel["samesite"] == "Strict" and morsel["path"] == "/"
        assert bool(morsel["secure"]) is secure and morsel["domain"] == ""
        assert (await browser.get("/web/me", **headers)).said["person"] == ANN.key
        out = await browser.post("/web/logout", **headers)
        assert out.cookies[found]["max-age"] == "0" and bool(out.cookies[found]["secure"]) is secure


async def test_what_changes_something_needs_the_page_s_own_token(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        browser, other = await pages.entered(), await pages.entered(BOB.key)
        secret = next(iter(browser.cookies.values()))
        message = {"id": "1", "text": "Hello"}
        path = "/api/v1/sessions/memory%3Ahere/messages"
        for wrong in ("", "0" * 64, other.csrf, browser.csrf.upper() + "0", secret):
            for method, where in (("POST", path), ("POST", "/web/logout"), ("DELETE", "/api/v1/devices/web-00000000")):
                heard = await browser.send(method, where, message, X_CSRF_Token=wrong)
                assert heard.status == 403 and "X-CSRF-Token" in heard.problem
        assert (await browser.post(path, message)).status == 202
        await core.settled()


@table(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "anything"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
    ],
)
async def test_a_page_of_another_origin_reads_and_changes_nothing(tmp_path: Path, headers: dict[str, str]) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        browser = await pages.entered()
        for path in ("/api/v1/sessions", "/web/me"):
            heard = await browser.get(path, **headers)
            assert heard.status == 403 and "Access-Control-Allow-Origin" not in heard.headers
        assert (await browser.post("/web/logout", **headers)).status == 403
        assert (await browser.get("/web/me")).status == 200


async def test_the_cookie_of_a_neighbour_on_another_port_is_none(tmp_path: Path) -> None:
    # Cookies know no ports: two daemons of one machine get each other's, and any local program can set some.
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        browser = await pages.entered()
        (name, secret) = next(iter(browser.cookies.items()))
        for header in (
            f"goclaw_{pages.port + 1}={secret}",
            f"goclaw={secret}",
            f"__Host-goclaw={secret}",
            f"{name}={secret}; {name}=planted",
            f"{name}=planted; {name}={secret}",
            f"{name}=planted",
            f'{name}="{secret}"',
        ):
            assert (await browser.get("/api/v1/sessions", Cookie=header)).status in (401, 429), header
        shared = f"goclaw_{pages.port + 1}=goclaw_other; theme=dark; {name}={secret}"
        assert (await browser.get("/api/v1/sessions", Cookie=shared)).status == 200


async def test_a_page_loaded_without_https_cannot_use_the_cookie_of_https(tmp_path: Path) -> None:
    world = web_world(tmp_path, http=PROXIED)
    async with world.running() as core, serving_pages(world, core) as pages:
        browser = pages.browser("claw.example.org")
        await browser.login(token=pages.secret())
        heard = await browser.post("/web/logout", Origin="http://claw.example.org", Sec_Fetch_Site="")
        assert heard.status == 403 and "https" in heard.problem
        assert (await browser.get("/web/me")).status == 200


async def test_another_s_session_is_not_there_for_a_device(tmp_path: Path) -> None:
    world = web_world(tmp_path)
    async with world.running() as core, serving_pages(world, core) as pages:
        browser = await pages.entered()
        for path in ("", "/messages"):
            assert (await browser.get(f"/api/v1/sessions/memory%3Athere{path}")).status == 404
