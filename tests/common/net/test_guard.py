"""Nothing that a model causes reaches this machine or its network: a canary counts."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

import pytest
from aiohttp import ClientError, InvalidURL, NonHttpUrlClientError, web
from yarl import URL

from goclaw.common.net.client import LOOPBACK_ONLY
from goclaw.common.net.guard import MAX_URL, UrlGuard, UrlRefused
from goclaw.errors import ConfigError
from tests.http_server import serve
from tests.tables import table

pytestmark = [pytest.mark.promise("P-url-guard")]
PUBLIC = "93.184.215.14"
ELSEWHERE = "127.9.9.9"
"""Stands for a public address where nobody answers: an exception makes it one."""


@pytest.fixture(autouse=True)
def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard itself keeps these tests from leaving the machine."""
    monkeypatch.delenv(LOOPBACK_ONLY)


@dataclass
class Canary:
    """A service on this machine that nobody should reach."""

    port: int = 0
    reached: list[str] = field(default_factory=list)
    location: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.reached.append(f"{request.host}{request.path}")
        if request.path == "/redirect":
            raise web.HTTPFound(self.location)
        return web.Response(text="the canary")


@pytest.fixture
async def canary() -> AsyncIterator[Canary]:
    canary = Canary()
    async with serve(web.route("*", "/{path:.*}", canary.answer)) as address:
        canary.port = URL(address).port or 0
        yield canary


def names(**addresses: Sequence[str]) -> UrlGuard:
    """A guard in a world where these names have these addresses."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        found = addresses.get(host.replace(".", "_"))
        if found is None:
            raise OSError("no such name")
        return found

    return UrlGuard(resolve=resolve)


async def fetched(guard: UrlGuard, url: str) -> str:
    async with asyncio.timeout(20), guard.client(10) as client, client.get(url) as response:
        return await response.text()


@table(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "127.1",
        "0",
        "0.0.0.0",  # noqa: S104  # nothing is bound
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::]",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "ⓛocalhost",
    ],
)
async def test_no_way_of_writing_this_machine_reaches_it(host: str, canary: Canary) -> None:
    with pytest.raises((UrlRefused, ClientError, ValueError)):
        await fetched(UrlGuard(), f"http://{host}:{canary.port}/")
    assert canary.reached == []


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "gopher://example.com/",
        "ftp://example.com/",
        "http://",
        "http:///path",
        "http://me:word@example.com/",
        "http://me@example.com/",
        "//example.com",
        "javascript:alert(1)",
        f"http://example.com/{'a' * MAX_URL}",
    ],
)
async def test_other_addresses_than_plain_web_pages_are_refused(url: str) -> None:
    with pytest.raises((UrlRefused, InvalidURL, NonHttpUrlClientError, ValueError)):
        await fetched(replace(names(example_com=[ELSEWHERE]), allow=(ELSEWHERE,)), url)
    with pytest.raises(UrlRefused):
        UrlGuard().check_url(URL(url))


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], [PUBLIC, "127.0.0.1"], ["127.0.0.1", PUBLIC], ["::1"], ["not an address"], []]
)
async def test_a_name_that_leads_inside_is_refused_whole(addresses: list[str], canary: Canary) -> None:
    with pytest.raises(UrlRefused):
        await fetched(names(evil_example=addresses), f"http://evil.example:{canary.port}/")
    assert canary.reached == []


async def test_a_name_that_changes_its_mind_gains_nothing(canary: Canary) -> None:
    """DNS rebinding: public when it is checked, this machine when it is connected to."""
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return [ELSEWHERE] if len(asked) % 2 else ["127.0.0.1"]

    guard = UrlGuard(allow=(ELSEWHERE,), resolve=rebinding)
    assert await guard.addresses("evil.example", canary.port) == [ELSEWHERE]
    for _ in range(6):
        with pytest.raises((UrlRefused, ClientError, OSError)):
            await fetched(guard, f"http://evil.example:{canary.port}/")
        with pytest.raises(UrlRefused):
            await guard.connect("evil.example", canary.port)
    assert canary.reached == []


async def test_each_request_asks_for_the_name_once_and_goes_where_that_answer_says(canary: Canary) -> None:
    asked: list[str] = []

    async def counting(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    guard = UrlGuard(allow=(f"inside.example:{canary.port}",), resolve=counting)
    assert await fetched(guard, f"http://inside.example:{canary.port}/x") == "the canary"
    assert asked == ["inside.example"]
    assert canary.reached == [f"inside.example:{canary.port}/x"]


async def test_a_redirect_inside_is_refused(canary: Canary) -> None:
    guard = UrlGuard(allow=(f"127.0.0.1:{canary.port}",))
    for inside in ("http://127.0.0.2/", "http://localhost:1/", "http://169.254.169.254/latest", "file:///etc/passwd"):
        canary.location = inside
        with pytest.raises((UrlRefused, ClientError, ValueError)):
            await fetched(guard, f"http://127.0.0.1:{canary.port}/redirect")
    assert set(canary.reached) == {f"127.0.0.1:{canary.port}/redirect"}


async def test_a_proxy_of_the_environment_is_not_used(canary: Canary, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://proxy.example:{canary.port}")
    # The guard would let the proxy itself be reached: whoever asks it has it resolve for us.
    guard = replace(names(proxy_example=["127.0.0.1"]), allow=("proxy.example",))
    with pytest.raises((UrlRefused, ClientError, OSError)):
        await fetched(guard, "http://nowhere.example/")
    assert canary.reached == []


async def test_a_connection_goes_to_the_address_that_was_checked_and_not_to_the_name(canary: Canary) -> None:
    guard = replace(names(canary_example=["127.0.0.1"]), allow=("canary.example",))
    _, writer = await guard.connect("canary.example", canary.port)
    assert writer.get_extra_info("peername") == ("127.0.0.1", canary.port)
    writer.close()


@pytest.mark.parametrize("rule", ["localhost:{port}", "localhost", "127.0.0.1", "127.0.0.0/8", "127.0.0.1:{port}"])
async def test_the_operator_can_make_an_exception(rule: str, canary: Canary) -> None:
    guard = UrlGuard(allow=(rule.format(port=canary.port),))
    reader, writer = await guard.connect("localhost", canary.port)
    writer.close()
    assert reader is not None


@pytest.mark.parametrize("rule", ["localhost:1", "example.com", "10.0.0.0/8", "ocalhost", ""])
async def test_an_exception_is_for_what_it_names(rule: str, canary: Canary) -> None:
    with pytest.raises(UrlRefused, match="this machine"):
        await UrlGuard(allow=(rule,)).connect("localhost", canary.port)


@pytest.mark.parametrize(
    ("rule", "host", "refused"),
    [
        ("evil.example", "evil.example", True),
        ("evil.example", "www.evil.example", True),
        ("evil.example", "notevil.example", False),
        (f"{PUBLIC}/32", "evil.example", True),
        ("evil.example:443", "evil.example", False),
        ("EVIL.example.", "evil.example", True),
    ],
)
async def test_what_the_operator_denies_is_refused_with_all_below_it(rule: str, host: str, refused: bool) -> None:
    async def everywhere(host: str, port: int) -> Sequence[str]:
        return [PUBLIC]

    guard = UrlGuard(deny=(rule,), resolve=everywhere)
    if refused:
        with pytest.raises(UrlRefused, match="denied"):
            await guard.addresses(host, 80)
    else:
        assert await guard.addresses(host, 80) == [PUBLIC]


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "127.1", "0"])
async def test_an_address_that_is_written_unusually_is_no_name_to_ask_for(host: str) -> None:
    async def anywhere(host: str, port: int) -> Sequence[str]:
        return [PUBLIC]

    with pytest.raises(UrlRefused, match="unusual way"):
        await UrlGuard(resolve=anywhere).addresses(host, 80)


@pytest.mark.parametrize("host", ["", ".", "a b", "a\x00b", "a/b", "a@b", "x" * 300, "ünïcode", "a%2eb"])
async def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(UrlRefused):
        await UrlGuard().addresses(host, 80)


async def test_a_refusal_says_what_and_why_and_how_to_make_an_exception() -> None:
    with pytest.raises(UrlRefused) as refusal:
        await names(nas_home=["192.168.1.5"]).addresses("nas.home", 80)
    assert str(refusal.value) == (
        "refused: nas.home leads to 192.168.1.5, which is a private network; "
        "an admin can make an exception for `nas.home:80`"
    )


async def test_while_the_switch_of_the_tests_is_set_nothing_but_this_machine_is_reached(
    canary: Canary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LOOPBACK_ONLY, "1")
    asked: list[str] = []

    async def counting(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    guard = UrlGuard(allow=("127.0.0.1",), resolve=counting)
    with pytest.raises(ConfigError, match=LOOPBACK_ONLY):
        await guard.connect("away.example", canary.port)
    with pytest.raises(ConfigError, match=LOOPBACK_ONLY):
        await fetched(guard, f"http://away.example:{canary.port}/")
    assert asked == [] and canary.reached == []
    _, writer = await guard.connect("127.0.0.1", canary.port)
    writer.close()
