"""Fetching a page: what is reached and what is not, how much of it, and what is said when it fails."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Sequence

import pytest

from goclaw import __version__
from goclaw.common.core.redact import remember
from goclaw.common.net import UrlGuard, UrlRefused
from goclaw.common.net.client import LOOPBACK_ONLY
from goclaw.common.net.pages.fetching import Fetched, fetch
from goclaw.errors import ToolError
from tests.common.net.pages.pages import ARTICLE, BOMB, Site, bomb, packed, serving


@pytest.fixture(autouse=True)
def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard itself keeps these tests from leaving the machine."""
    monkeypatch.delenv(LOOPBACK_ONLY)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with serving() as made:
        yield made


async def got(site: Site, path: str, *, seconds: float = 20, most: int = 1 << 20) -> Fetched:
    async with asyncio.timeout(20):
        guard = UrlGuard(allow=(f"127.0.0.1:{site.port}",))
        return await fetch(guard, path if "://" in path else f"{site.url}{path}", seconds=seconds, most=most)


async def refused(site: Site, path: str, **bounds: float) -> str:
    with pytest.raises(ToolError) as raised:
        await got(site, path, **bounds)  # type: ignore[arg-type]  # whole numbers for what wants them
    return str(raised.value)


async def test_a_page_comes_as_it_is_and_is_asked_for_honestly(site: Site) -> None:
    site.serve(ARTICLE)
    page = await got(site, "/page#part")
    assert (page.status, page.kind, page.charset, page.cut) == (200, "text/html", "utf-8", False)
    assert page.body == ARTICLE.encode() and page.url == f"{site.url}/page"
    (request,) = site.heard
    assert request.headers["User-Agent"].startswith(f"GoClaw/{__version__}")
    assert "Cookie" not in request.headers and "Authorization" not in request.headers


@pytest.mark.promise("P-url-guard")
@pytest.mark.parametrize("path", ["http://127.0.0.2:{port}/", "http://[::1]:{port}/", "http://localhost:1/"])
async def test_what_the_policy_does_not_name_is_refused(site: Site, path: str) -> None:
    assert "an admin can make an exception" in await refused(site, path.format(port=site.port))
    assert site.heard == []


@pytest.mark.promise("P-url-guard")
@pytest.mark.parametrize(
    "location",
    ["http://127.0.0.2/", "http://localhost:1/", "//10.0.0.1/", "file:///etc/passwd", "http://a:b@127.0.0.1/"],
)
async def test_each_hop_of_a_redirect_is_judged(site: Site, location: str) -> None:
    site.location = location
    assert (await refused(site, "/redirect")).startswith("refused:")
    assert len(site.heard) == 1


@pytest.mark.promise("P-url-guard")
async def test_a_name_that_changes_its_mind_between_two_hops_is_refused(
    site: Site,
) -> None:
    answers = [["127.0.0.1"], ["127.0.0.2"]]

    async def rebinding(host: str, port: int) -> Sequence[str]:
        return answers.pop(0)

    site.location = f"http://a.example:{site.port}/page"
    guard = UrlGuard(allow=("127.0.0.1",), resolve=rebinding)
    with pytest.raises(UrlRefused, match=r"127\.0\.0\.2"):
        await fetch(guard, f"http://a.example:{site.port}/redirect", seconds=10, most=1_000)
    assert [request.path for request in site.heard] == ["/redirect"]


async def test_redirects_are_followed_to_where_they_lead_and_not_for_ever(site: Site) -> None:
    site.serve("here", "text/plain")
    site.location = "page"
    assert (await got(site, "/redirect")).url == f"{site.url}/page"
    assert "redirects more than 10 times" in await refused(site, "/loop")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://me:word@example.com/", "password"),
        ("https://me@example.com/", "user name"),
        ("ftp://example.com/", "only http and https"),
        ("example.com/page://", "only http and https"),
        ("http://", "only http and https"),
        ("http://[::1/", "no address"),
        ("http://example.com:99999/", "no address"),
        ("http://exa mple.com/", "spaces"),
        ("http://example.com/\r\nHost: evil", "control characters"),
        ("http://2130706433/", "refused"),
    ],
)
async def test_what_is_no_plain_address_of_a_page_is_refused(site: Site, url: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        await fetch(UrlGuard(), url, seconds=10, most=1_000)


async def test_an_address_that_would_carry_a_secret_away_is_refused(site: Site) -> None:
    remember("fetch-canary-4711-secret")
    said = await refused(site, "/page?q=fetch-canary-4711-secret")
    assert "secret" in said and "4711" not in said
    assert site.heard == []


_SECRET = "fetch-Canary-4711-secret"


@pytest.mark.parametrize(
    "written",
    [
        *("/%66etch-Canary-4711-secret", "/%2566etch-Canary-4711-secret", "/%252566etch%252dCanary-4711-secret"),
        *(
            "/page?q=fetch%2DCanary%2d4711%2Dsecret",
            "/page?fetch%252DCanary-4711-secret=1",
            "/fetch-x/../%66etch-Canary-4711-secret",
        ),
        *("/page?q=" + "".join(f"%{byte:02x}" for byte in _SECRET.encode()), "/page?q=" + _SECRET.encode().hex()),
    ],
)
async def test_a_secret_in_percent_signs_is_refused_however_often_it_is_encoded(site: Site, written: str) -> None:
    remember(_SECRET)
    said = await refused(site, written)
    assert "holds a secret" in said and "4711" not in said
    assert site.heard == []


@pytest.mark.parametrize(
    "host", ["%66etch-Canary-4711-secret", "\uff46etch-Canary-4711-secret", "%EF%BD%86etch-Canary-4711-secret"]
)
async def test_a_secret_in_the_name_of_a_host_asks_no_name_server(host: str) -> None:
    remember(_SECRET)
    asked: list[str] = []

    async def listening(name: str, port: int) -> Sequence[str]:
        asked.append(name)
        return ["127.0.0.1"]

    with pytest.raises(ToolError, match="holds a secret"):
        await fetch(UrlGuard(resolve=listening), f"http://{host}.example/", seconds=10, most=1_000)
    assert asked == []


async def test_a_redirect_does_not_carry_a_secret_on(site: Site) -> None:
    remember(_SECRET)
    site.location = "/page?q=%66etch-Canary-4711-secret"
    assert "holds a secret" in await refused(site, "/redirect")
    assert [request.path for request in site.heard] == ["/redirect"]


async def test_what_is_sent_with_a_request_is_the_same_for_every_page(site: Site) -> None:
    site.serve("here", "text/plain")
    await got(site, "/page?a=%41")
    assert set(site.heard[0].headers) == {"Host", "User-Agent", "Accept", "Accept-Encoding", "Connection"}


async def test_an_error_page_is_a_page_with_its_status(site: Site) -> None:
    page = await got(site, "/missing")
    assert (page.status, page.body) == (404, b"not here")


async def test_a_server_that_says_nothing_is_given_up(site: Site) -> None:
    assert "within 0.05 s" in await refused(site, "/silent", seconds=0.05)


async def test_an_endless_body_is_read_up_to_the_bound(site: Site) -> None:
    page = await got(site, "/endless", most=100_000)
    assert page.cut and len(page.body) == 100_000


async def test_a_packed_page_is_unpacked(site: Site) -> None:
    site.serve(packed(ARTICLE), Content_Encoding="gzip")
    assert (await got(site, "/page")).body.decode() == ARTICLE
    for wbits in (15, -15):
        stream = zlib.compressobj(wbits=wbits)
        site.serve(stream.compress(ARTICLE.encode()) + stream.flush(), Content_Encoding="deflate")
        assert (await got(site, "/page")).body.decode() == ARTICLE


async def test_a_bomb_unpacks_to_the_bound_and_no_further(site: Site) -> None:
    packed_bomb = bomb()
    site.serve(packed_bomb, "text/plain", Content_Encoding="gzip")
    page = await got(site, "/page", most=1 << 20)
    assert page.cut and len(page.body) == 1 << 20
    assert len(packed_bomb) < BOMB >> 9


@pytest.mark.parametrize(("encoding", "said"), [("gzip", "damaged"), ("br", "not asked for")])
async def test_what_cannot_be_unpacked_is_an_error(site: Site, encoding: str, said: str) -> None:
    site.serve(b"\x1f\x8b\x08\x00 this is no gzip at all, \xff\xff\xff", Content_Encoding=encoding)
    assert said in await refused(site, "/page")


async def test_a_body_that_breaks_off_is_an_error(site: Site) -> None:
    assert "broke off" in await refused(site, "/broken")


async def test_nobody_there_is_an_error_that_names_the_host(site: Site) -> None:
    guard = UrlGuard(allow=("127.0.0.1",))
    with pytest.raises(ToolError, match=r"127\.0\.0\.1 cannot be reached"):
        await fetch(guard, "http://127.0.0.1:1/", seconds=10, most=1_000)


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("application/pdf", b"\x00 none", "application/pdf (6 bytes)"),
        ("image/png", b"\x89PNG", "image/png (4 bytes)"),
        ("application/octet-stream", b"\x00\x01", "application/octet-stream (2 bytes)"),
        (None, b"a\x00b", "(3 bytes)"),
        ("text/plain", b"a\x00b", "text/plain (3 bytes)"),
    ],
)
async def test_what_is_no_text_is_named_with_its_size(site: Site, kind: str | None, body: bytes, said: str) -> None:
    site.serve(body, kind)
    assert said in await refused(site, "/page")


@pytest.mark.parametrize("kind", ["application/json", "application/ld+json", "text/csv", "image/svg+xml", None])
async def test_text_of_every_kind_is_read(site: Site, kind: str | None) -> None:
    site.serve("{}", kind)
    assert (await got(site, "/page")).body == b"{}"
