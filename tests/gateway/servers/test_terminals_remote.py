"""Terminals over TCP: nobody without a token, nobody as somebody else, and nobody for longer than they may."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from goclaw.channels.base import Routes
from goclaw.clients.tui.client import Client, DaemonRefusal, NotOpen, RemoteDaemon, attach
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.tokens import LOOK_SECONDS, Tokens, add_token, open_tokens, revoke_token
from goclaw.common.auth.users import User
from goclaw.common.config.schema import Config
from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import AcceptKind, Notice, TextStreamed, TurnFinished
from goclaw.common.core.wire import PATH, AskOlder, AskRows, AskSessions, Older, Rows, SessionsReply
from goclaw.common.health.readiness import Readiness
from goclaw.gateway.servers.admission import Admission, FailureLimits, Failures
from goclaw.gateway.servers.connections import network_of
from goclaw.gateway.servers.http import open_http
from goclaw.gateway.servers.terminals import REMOTE_ENTRY, RemoteTerminals, TerminalLimits
from tests.harness import PATIENCE, Answer, Core, World
from tests.http_server import serve

ANN, BOB = "tui:ann", "telegram:7"


@dataclass
class House:
    """A core behind the listener, with tokens for its users."""

    core: Core
    world: World
    tokens: Tokens
    port: int
    path: Path
    audited: list[AuditEntry] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def token(self, name: str, user: str, until: float | None = None) -> str:
        secret = add_token(self.path, name, user, self.world.clock.now(), until)
        await self.tokens.refresh()
        return secret

    async def revoke(self, name: str) -> None:
        revoke_token(self.path, name)
        await self.tokens.refresh()

    def remote(self, token: str) -> RemoteDaemon:
        return RemoteDaemon(self.url, token)

    async def status(self, path: str = PATH, **headers: str) -> int:
        """What a handshake is answered with."""
        async with aiohttp.ClientSession() as http:
            try:
                async with http.ws_connect(f"{self.url}{path}", headers=headers):
                    return 101
            except aiohttp.WSServerHandshakeError as error:
                return error.status


@asynccontextmanager
async def house(
    folder: Path,
    answers: Any = (),
    bounds: TerminalLimits | None = None,
    proxies: str = "",
    failures: FailureLimits | None = None,
    **config: Any,
) -> AsyncIterator[House]:
    users = [User(ANN), User(BOB), User("tui:boss", roles=frozenset({"admin"}))]
    world = World(folder, answers, users=users, **config)
    path = folder / "access-tokens.json"
    async with world.running() as core, asyncio.timeout(PATIENCE), open_tokens(path, world.clock) as tokens:
        made = House(core, world, tokens, 0, path)
        admission = Admission(tokens, world.clock, made.audited.append, REMOTE_ENTRY, failures or FailureLimits())
        door = RemoteTerminals(
            core.gateway, admission, world.clock, made.audited.append, lambda: "Model: scripted.", bounds
        )
        routes = Routes()
        routes.add("GET", PATH, door.receive)
        settings = Config.model_validate({"http": {"port": 0, "clients": True, "trusted_proxies": proxies}})
        async with open_http(settings, routes, _ready) as server:
            made.port = server.port
            try:
                yield made
            finally:
                await door.end()


async def _ready() -> Readiness:
    return Readiness()


async def until(client: Client, kind: type[Any]) -> list[Any]:
    seen = []
    async for event in client.receive():
        seen.append(event)
        if isinstance(event, kind):
            return seen
    raise AssertionError("the daemon closed the connection")


async def last_words(client: Client, clock: SteppedClock) -> list[Any]:
    """What still comes until the daemon closes the connection, while time passes."""
    seen: list[Any] = []

    async def listen() -> None:
        seen.extend([received async for received in client.receive()])

    listening = asyncio.create_task(listen())
    while not listening.done():
        clock.advance(0.5)
        await spun(listening.done)
    await listening
    return seen


async def spun(look: Callable[[], bool]) -> None:
    """Let everything go on until `look` finds something, or there is nothing left to go on."""
    for _ in range(5_000):
        if look():
            return
        await asyncio.sleep(0)


@pytest.mark.promise("P-token")
async def test_who_has_a_token_talks_as_its_user_and_in_the_users_own_session(tmp_path: Path) -> None:
    async with house(tmp_path, [Answer("Hello Ann")]) as here:
        token = await here.token("laptop", ANN)
        async with attach(here.remote(token), "") as client:
            assert (client.attached.session, client.attached.person) == (ANN, ANN)
            assert client.attached.greeting == "Model: scripted."
            await client.send("hi")
            assert (await until(client, TurnFinished))[-1].text == "Hello Ann"
            said = (await client.send("/whoami")).text
        assert said.startswith(f"You are {ANN}.") and "Role: user" in said
    attached = [entry for entry in here.audited if entry.action == "client.attach"]
    assert [(entry.object, entry.actor.key, entry.actor.entry) for entry in attached] == [("laptop", ANN, "http")]


@pytest.mark.promise("P-token")
@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Basic {token}",
        "bear {token}",
        "Bearer {token}x",
        "Bearer\t{token}",
        "{token}",
    ],
)
async def test_nobody_comes_in_without_a_valid_token(tmp_path: Path, authorization: str) -> None:
    async with house(tmp_path) as here:
        token = await here.token("laptop", ANN)
        headers = {"Authorization": authorization.format(token=token)} if authorization else {}
        assert await here.status(**headers) == 401
        assert await here.status(Authorization=f"Bearer {token}") == 101


@pytest.mark.promise("P-token")
async def test_a_token_in_the_address_is_none_and_is_not_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with house(tmp_path) as here:
        token = await here.token("laptop", ANN)
        assert await here.status(f"{PATH}?token={token}") == 400
        assert await here.status(f"{PATH}?token={token}", Authorization=f"Bearer {token}") == 400
        assert await here.status(Authorization=f"Bearer {token}x") == 401
        async with attach(here.remote(token), ""):
            pass
    assert token not in caplog.text and token not in here.path.read_text()
    assert token not in repr(here.remote(token)) and all(token not in str(entry) for entry in here.audited)


@pytest.mark.promise("P-token")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:80"}, 421),
    ],
)
async def test_a_page_or_another_name_does_not_come_in_even_with_a_token(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    async with house(tmp_path) as here:
        token = await here.token("laptop", ANN)
        assert await here.status(**headers, Authorization=f"Bearer {token}") == status
        assert await here.status(**headers) == status, "who is refused so learns nothing about tokens"


@pytest.mark.promise("P-token")
async def test_rights_that_a_client_declares_are_not_heard(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        token = await here.token("laptop", ANN)
        claims = {"X-GoClaw-Scopes": "admin", "X-GoClaw-User": "tui:boss", "X-Forwarded-User": "tui:boss"}
        async with aiohttp.ClientSession() as http:
            connect = http.ws_connect(f"{here.url}{PATH}", headers=claims | {"Authorization": f"Bearer {token}"})
            async with connect as connection:
                said = {"type": "attach", "session": "tui:boss", "user": "tui:boss", "owner": True, "scopes": ["admin"]}
                await connection.send_json(said)
                answer = await connection.receive_str()
        assert '"type":"refused"' in answer and "is not a session of tui:ann" in answer


@pytest.mark.promise("P-token")
@pytest.mark.parametrize("session", ["tui:boss", BOB, "tui:owner", "telegram:-5", "memory:here"])
async def test_a_token_opens_no_session_but_its_users(tmp_path: Path, session: str) -> None:
    async with house(tmp_path) as here:
        token = await here.token("laptop", ANN)
        with pytest.raises(NotOpen):
            async with attach(here.remote(token), session):
                pass


@pytest.mark.promise("P-token")
async def test_a_telegram_users_token_opens_no_group(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        token = await here.token("phone", BOB)
        with pytest.raises(NotOpen):
            async with attach(here.remote(token), "telegram:-100123"):
                pass


@pytest.mark.promise("P-token")
async def test_what_others_say_is_not_seen_over_tcp(tmp_path: Path) -> None:
    async with house(tmp_path, [Answer("the secret of Bob"), Answer("ok")]) as here:
        bob, ann = await here.token("phone", BOB), await here.token("laptop", ANN)
        async with attach(here.remote(bob), "") as client:
            await client.send("my secret")
            await until(client, TurnFinished)
        async with attach(here.remote(ann), "") as client:
            listed = (await client.answer(AskSessions(), SessionsReply)).sessions
            assert listed == []
            assert (await client.answer(AskOlder(1_000), Older)).rows == []
            assert (await client.answer(AskRows(), Rows)).rows == []
            numbers = await client.status()
            assert numbers["session"] == ANN and not numbers["health"]
            texts = [(await client.send(text)).text for text in ("/sessions", "/status", "/usage all", "/forget")]
        assert all("secret" not in text and BOB not in text for text in texts)


@pytest.mark.promise("P-token")
async def test_the_daemons_faults_are_told_to_admins_alone(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        ann, boss = await here.token("laptop", ANN), await here.token("desk", "tui:boss")
        async with attach(here.remote(ann), "") as guest, attach(here.remote(boss), "") as admin:
            here.core.bus.notice("⚠ chat 7 takes no messages")
            here.core.bus.publish(Notice(ANN, "for you"))
            assert [event.text for event in await until(admin, Notice)] == ["⚠ chat 7 takes no messages"]
            assert [event.text for event in await until(guest, Notice)] == ["for you"]


@pytest.mark.promise("P-token")
async def test_a_revoked_token_ends_what_streams(tmp_path: Path) -> None:
    async with house(tmp_path, [Answer("A rather long answer")]) as here:
        here.world.script.gate = asyncio.Event()
        token = await here.token("laptop", ANN)
        async with attach(here.remote(token), "") as client:
            await client.send("go")
            await until(client, TextStreamed)
            await here.revoke("laptop")
            here.world.script.gate.set()
            words = await last_words(client, here.world.clock)
        assert [type(word).__name__ for word in words] == ["Refused"]
        assert words[0].reason == "denied: the token laptop was revoked"
        with pytest.raises(DaemonRefusal, match="invalid or has expired"):
            async with attach(here.remote(token), ""):
                pass


@pytest.mark.promise("P-token")
async def test_an_idle_client_whose_token_is_revoked_is_cut_off_within_two_seconds(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        token = await here.token("laptop", ANN)
        async with attach(here.remote(token), "") as client:
            await client.status()
            began = here.world.clock.monotonic()
            revoke_token(here.path, "laptop")  # the daemon sees it by itself
            here.world.clock.advance(LOOK_SECONDS)
            while here.tokens.get("laptop"):  # noqa: ASYNC110 - a thread reads the file
                await asyncio.sleep(0)
            words = await last_words(client, here.world.clock)
        assert "revoked" in words[0].reason
        assert here.world.clock.monotonic() - began <= 2.0


@pytest.mark.promise("P-token")
async def test_a_token_ends_at_its_time_also_for_who_is_connected(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        token = await here.token("laptop", ANN, here.world.clock.now() + 60)
        async with attach(here.remote(token), "") as client:
            await client.status()
            here.world.clock.advance(60)
            assert "expired" in (await last_words(client, here.world.clock))[0].reason
        assert await here.status(Authorization=f"Bearer {token}") == 401


@pytest.mark.promise("P-token")
async def test_who_is_taken_out_of_users_json_is_cut_off_and_stays_out(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        token = await here.token("laptop", ANN)
        async with attach(here.remote(token), "") as client:
            await client.status()
            here.world.users._users.pop(ANN)
            words = await last_words(client, here.world.clock)
        assert f"{ANN} is not in users.json" in words[0].reason
        with pytest.raises(NotOpen):
            async with attach(here.remote(token), ""):
                pass


@pytest.mark.promise("P-token")
async def test_a_name_that_is_given_again_is_another_token(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        old = await here.token("laptop", ANN)
        async with attach(here.remote(old), "") as client:
            revoke_token(here.path, "laptop")
            await here.token("laptop", "tui:boss")
            assert "revoked" in (await last_words(client, here.world.clock))[0].reason


@pytest.mark.promise("P-token")
async def test_rights_count_as_they_are_when_they_are_used(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        token = await here.token("desk", "tui:boss")
        async with attach(here.remote(token), "") as client:
            assert "All conversations" in (await client.send("/usage")).text
            here.world.users._users["tui:boss"] = User("tui:boss")
            assert "All conversations" not in (await client.send("/usage")).text


@pytest.mark.promise("P-token")
async def test_a_message_comes_through_and_goes_to_nobody_elses_session(tmp_path: Path) -> None:
    async with house(tmp_path, [Answer("one")]) as here:
        token = await here.token("phone", BOB)
        async with attach(here.remote(token), "") as client:
            accepted = await client.send("hi")
            assert (accepted.kind, accepted.session) == (AcceptKind.TURN, BOB)
            await until(client, TurnFinished)
        assert len(await here.core.messages(BOB)) == 2


@pytest.mark.promise("P-token")
async def test_too_many_connections_of_one_token_or_address_are_refused(tmp_path: Path) -> None:
    async with house(tmp_path, bounds=TerminalLimits(per_token=2, per_address=3)) as here:
        ann, bob = await here.token("laptop", ANN), await here.token("phone", BOB)
        async with attach(here.remote(ann), ""), attach(here.remote(ann), ""):
            with pytest.raises(DaemonRefusal, match="too many open connections"):
                async with attach(here.remote(ann), ""):
                    pass
            async with attach(here.remote(bob), ""):
                with pytest.raises(DaemonRefusal, match="too many open connections"):
                    async with attach(here.remote(bob), ""):
                        pass
        async with attach(here.remote(bob), "") as client:
            assert client.attached.person == BOB


@pytest.mark.promise("P-token")
async def test_who_guesses_is_told_to_wait_and_does_not_fill_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with house(tmp_path, failures=FailureLimits(failures=3)) as here:
        token = await here.token("laptop", ANN)
        got = [await here.status(Authorization=f"Bearer guess-{number}") for number in range(20)]
        assert got == [401] * 3 + [429] * 17
        assert caplog.text.count("has no valid access token") == 2
        assert await here.status(Authorization=f"Bearer {token}") == 101, "nobody can shut others out"
        here.world.clock.advance(60)
        assert await here.status() == 401


@pytest.mark.promise("P-token")
def test_what_is_remembered_of_failures_is_bounded() -> None:
    failures = Failures(FailureLimits(addresses=10), SteppedClock())
    for number in range(1_000):
        failures.note(f"10.0.{number // 250}.{number % 250}")
    assert len(failures._failed) == 10


@pytest.mark.promise("P-token")
@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::1", "::1"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("", "somewhere"),
    ],
)
def test_a_caller_is_an_address_or_the_network_that_one_caller_has(address: str, network: str) -> None:
    assert network_of(address) == network


@pytest.mark.promise("P-token")
async def test_who_does_not_read_is_cut_off_all_the_same(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        token = await here.token("laptop", ANN)
        async with aiohttp.ClientSession() as http:
            headers, patience = {"Authorization": f"Bearer {token}"}, aiohttp.ClientWSTimeout(ws_close=0.1)
            connect = http.ws_connect(f"{here.url}{PATH}", headers=headers, max_msg_size=0, timeout=patience)
            async with connect as connection:
                await connection.send_str('{"type":"attach","session":""}')
                await connection.receive_str()
                assert connection._response.connection and connection._response.connection.transport
                connection._response.connection.transport.pause_reading()
                for _ in range(400):
                    here.core.bus.publish(Notice(ANN, "x" * 100_000))
                await here.revoke("laptop")
                while _followers(here.core.bus):
                    here.world.clock.advance(0.5)
                    await asyncio.sleep(0)


def _followers(bus: Bus) -> int:
    return sum(subscription.session == ANN for subscription in bus._subscriptions)


@pytest.mark.promise("P-token")
async def test_a_plain_request_with_a_token_is_told_to_upgrade(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        token = await here.token("laptop", ANN)
        async with aiohttp.ClientSession() as http:
            async with http.get(f"{here.url}{PATH}", headers={"Authorization": f"Bearer {token}"}) as answer:
                assert answer.status == 426
            async with http.get(f"{here.url}{PATH}") as answer:
                assert answer.status == 401
            async with http.post(f"{here.url}{PATH}", data=b"x") as answer:
                assert answer.status == 405


@pytest.mark.promise("P-token")
async def test_a_large_frame_ends_the_connection(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        token = await here.token("laptop", ANN)
        async with aiohttp.ClientSession() as http:
            connect = http.ws_connect(f"{here.url}{PATH}", headers={"Authorization": f"Bearer {token}"})
            async with connect as connection:
                with suppress(ConnectionError):  # the daemon may be gone before all of it is
                    await connection.send_str("x" * (5 << 20))
                answer = await connection.receive(PATIENCE)
                assert answer.type is not aiohttp.WSMsgType.TEXT
            assert here.core.bus.now(ANN).turn == ""


@pytest.mark.promise("P-token")
async def test_a_token_goes_nowhere_else(tmp_path: Path) -> None:
    """A server that leads elsewhere gets no second request out of us (CVE-2026-25253: a URL that takes the token)."""
    asked: list[str] = []

    async def lead_away(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        raise web.HTTPFound("/elsewhere")

    routes = Routes()
    routes.add("GET", PATH, lead_away)
    routes.add("GET", "/elsewhere", lead_away)

    async with _elsewhere(routes) as port:
        with pytest.raises(Exception, match="redirects elsewhere"):
            async with attach(RemoteDaemon(f"http://127.0.0.1:{port}", "goclaw_x"), ""):
                pass
    assert asked == [PATH]


@asynccontextmanager
async def _elsewhere(routes: Routes) -> AsyncIterator[int]:
    async with serve(*(web.route(method, path, handler) for method, path, handler in routes.added)) as address:
        yield URL(address).port or 0
