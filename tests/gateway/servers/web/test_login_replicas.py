"""The ways in for a browser where several gateways stand behind one address: each request may reach another one."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from goclaw.common.auth.web_logins import LoginLimits, WebLogins
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.events import Actor
from goclaw.durable.store.postgres.clock import DatabaseClock
from tests.acceptance.model import EchoModel, echo_model
from tests.acceptance.waiting import clock, eventually
from tests.gateway.servers.web.calling import SECRET, Browser, Heard
from tests.ports import free_port
from tests.postgres import Server, fresh_place
from tests.replicas import Replica, replicas

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.promise("P-web-login-anywhere"),
]

ANN = Actor("memory:ann", "memory")
BOB = Actor("memory:bob", "memory")
PROXY = "claw.example.org"
"""The one name of all gateways: the proxy in front of them speaks https."""


@pytest.fixture(scope="module")
def place(server: Server) -> PostgresPlace:
    return fresh_place(server)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder with a short path: the sockets below it may have 107 bytes."""
    made = Path(tempfile.mkdtemp(prefix="goclaw-"))
    yield made
    shutil.rmtree(made)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model(shared_by_the_module: None) -> AsyncIterator[EchoModel]:
    async with echo_model() as serving:
        yield serving


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateways(place: PostgresPlace, folder: Path, model: EchoModel) -> AsyncIterator[Sequence[Replica]]:
    """Three gateways with the page behind one proxy; Ann and Bob are known at each."""
    http = {"web": True, "public_url": f"https://{PROXY}", "trusted_proxies": ["127.0.0.1"]}

    def own() -> Mapping[str, Any]:
        return {"http": {**http, "port": free_port()}}

    async with replicas(place, folder / "three", model.url, 3, own) as made:
        people = {each.key: {"name": "A person", "roles": ["user"]} for each in (ANN, BOB)}
        made[0].write_people(people)
        for each in made:
            await eventually(lambda users=each.app.foundation.users: users.get(BOB.key))  # type: ignore[misc]  # bound at once
        yield made


@pytest.fixture
def three(gateways: Sequence[Replica], server: Server, place: PostgresPlace) -> Iterator[Sequence[Replica]]:
    """They, without what the test before has left."""
    with psycopg.connect(server.url, options=f"-csearch_path={place.schema}", autocommit=True) as connection:
        connection.execute("DELETE FROM daemon_facts WHERE name LIKE 'web l%'")
    kept = [(logins(each), logins(each).limits, logins(each).clock) for each in gateways]
    yield gateways
    for of, limits, its_clock in kept:
        of.limits, of.clock = limits, its_clock


def logins(replica: Replica) -> WebLogins:
    found = replica.gateway.ports.entrances.logins
    assert found is not None
    return found


class Moving(Browser):
    """A browser whose next request the proxy passes on to `to`."""

    def to(self, replica: Replica) -> "Moving":
        self.port = port_of(replica)
        return self


def port_of(replica: Replica) -> int:
    return replica.app.foundation.config.http.port


def browser(**headers: str) -> Moving:
    return Moving(0, PROXY, headers)


async def asked(page: Moving) -> tuple[str, str]:
    heard = await page.post("/web/login/code")
    assert heard.status == 200, heard.said
    return heard.said["code"], heard.said["secret"]


async def said_by(person: Actor, replica: Replica, text: str) -> str:
    return (await replica.say(text, actor=person, chat=person.key.partition(":")[2])).text


async def waiting(replica: Replica, page: Moving, secret: str) -> "asyncio.Task[Heard]":
    """A page that waits at a gateway, since all were told that it does."""
    task = asyncio.create_task(page.to(replica).post("/web/login/wait", {"secret": secret}))
    waits = logins(replica)._waits
    await eventually(lambda: any(each.is_told for each in waits.values()) or task.done())
    return task


def stored(server: Server, place: PostgresPlace) -> str:
    """All facts in the database, as one text."""
    with psycopg.connect(server.url, options=f"-csearch_path={place.schema}") as connection:
        return str(connection.execute("SELECT name, value FROM daemon_facts").fetchall())


async def test_a_code_is_approved_at_any_gateway_and_lets_the_page_in_at_any_other_once(
    three: Sequence[Replica], server: Server, place: PostgresPlace
) -> None:
    one, two, three_ = three
    page = browser()
    code, secret = await asked(page.to(one))
    rows = stored(server, place)
    assert "web logins:" in rows
    assert secret not in rows and code not in rows and code.replace("-", "") not in rows
    task = await waiting(three_, page, secret)
    assert "Signed in as memory:ann: Firefox on Linux" in await said_by(ANN, two, f"/approve {code}")
    heard = await asyncio.wait_for(task, 10)  # long before the wait is over
    assert heard.status == 200 and heard.said["person"] == ANN.key
    for replica in three:
        assert "No page shows this code" in await said_by(BOB, replica, f"/approve {code}")
        assert (await browser().to(replica).post("/web/login/wait", {"secret": secret})).status == 410
    await eventually(lambda: "web logins:" not in stored(server, place))
    for replica in three:
        assert (await page.to(replica).get("/web/me")).said["person"] == ANN.key


async def waits_at_all(all_of_them: Sequence[Replica], secret: str) -> Sequence[tuple[int, object]]:
    """What a page hears that waits at all gateways at once."""
    waits = [browser().to(each).post("/web/login/wait", {"secret": secret}) for each in all_of_them]
    return [(heard.status, heard.said) for heard in await asyncio.gather(*waits)]


async def test_of_two_gateways_that_decide_at_once_one_does(three: Sequence[Replica]) -> None:
    one, two, three_ = three
    page = browser()
    code, secret = await asked(page.to(three_))
    said = await asyncio.gather(said_by(ANN, one, f"/approve {code}"), said_by(BOB, two, f"/deny {code}"))
    decided = [each for each in said if "Firefox on Linux" in each]
    assert len(decided) == 1 and sum("No page shows this code" in each for each in said) == 1, said
    heard = await waits_at_all(three, secret)
    assert sorted(status for status, _ in heard) == (
        [200, 410, 410] if decided[0].startswith("Signed in") else [410, 410, 410]
    ), heard
    code, secret = await asked(page.to(two))
    assert "Signed in" in await said_by(ANN, three_, f"/approve {code}")
    heard = await waits_at_all(three, secret)
    assert sorted(status for status, _ in heard) == [200, 410, 410], ("what was decided lets in once", heard)


async def test_a_page_that_waits_at_another_gateway_now_gets_its_answer_there(three: Sequence[Replica]) -> None:
    one, two, three_ = three
    page = browser()
    code, secret = await asked(page.to(one))
    old = await waiting(one, page, secret)
    new = await waiting(two, page, secret)
    heard = await asyncio.wait_for(old, 10)
    assert (heard.status, heard.said) == (202, {})
    assert "Refused" in await said_by(ANN, three_, f"/deny {code}")
    assert (await asyncio.wait_for(new, 10)).status == 410


class Late(DatabaseClock):
    """The clock of a gateway that was late to hear what time it is."""

    def now(self) -> float:
        return super().now() - 1.5


async def test_clocks_of_gateways_that_are_a_moment_apart_change_nothing(three: Sequence[Replica]) -> None:
    one, two, three_ = three
    logins(two).clock = Late(clock)
    page = browser()
    code, secret = await asked(page.to(one))
    await asked(browser().to(two))
    old = await waiting(one, page, secret)
    new = await waiting(two, page, secret)
    assert (await asyncio.wait_for(old, 10)).status == 202, "the later wait counts, also by an earlier clock"
    assert "Signed in" in await said_by(ANN, two, f"/approve {code}")
    assert (await asyncio.wait_for(new, 10)).status == 200
    said = [await said_by(BOB, replica, "/approve 2222-2222") for replica in (one, three_, one, one, one, two)]
    assert "Too many wrong codes" in said[-1]
    link = await logins(one).link(ANN.key, owner=False)
    assert (await browser().to(two).post("/web/login/link", {"link": link})).said["person"] == ANN.key


async def test_wrong_codes_are_counted_over_all_gateways(three: Sequence[Replica]) -> None:
    code, _ = await asked(browser().to(three[0]))
    for number in range(5):
        assert "No page shows" in await said_by(ANN, three[number % 3], "/approve 2222-2222")
    for replica in three:
        assert "Too many wrong codes" in await said_by(ANN, replica, f"/approve {code}")
    assert "Signed in as memory:bob" in await said_by(BOB, three[2], f"/approve {code}"), "the limit is one person's"


async def test_codes_are_bounded_over_all_gateways(three: Sequence[Replica]) -> None:
    for replica in three:
        logins(replica).limits = LoginLimits(per_address=2, in_all=3)
    at = [browser(**{"X-Forwarded-For": f"192.0.2.{number}"}) for number in (1, 1, 1, 2, 3)]
    first, _ = await asked(at[0].to(three[0]))
    await asked(at[1].to(three[1]))
    await asked(at[2].to(three[2]))
    assert "No page" in await said_by(ANN, three[1], f"/approve {first}"), "a further page of a caller takes its place"
    await asked(at[3].to(three[1]))
    assert (await at[4].to(three[0]).post("/web/login/code")).status == 429


async def test_a_code_is_over_by_the_database_s_clock(
    three: Sequence[Replica], server: Server, place: PostgresPlace
) -> None:
    page = browser()
    code, secret = await asked(page.to(three[0]))
    link = await logins(three[0]).link(ANN.key, owner=False)
    with psycopg.connect(server.url, options=f"-csearch_path={place.schema}", autocommit=True) as connection:
        changed = connection.execute(
            "UPDATE daemon_facts SET value = jsonb_set(value::jsonb, '{until}', "
            "to_jsonb(extract(epoch FROM clock_timestamp()) - 0.001))::text WHERE name LIKE 'web l%'"
        )
        assert changed.rowcount == 2
    assert "No page shows this code" in await said_by(ANN, three[1], f"/approve {code}")
    assert (await page.to(three[2]).post("/web/login/wait", {"secret": secret})).status == 410
    assert (await page.to(three[1]).post("/web/login", {"link": link})).status == 401
    await logins(three[1]).link(ANN.key, owner=False)
    await asked(browser().to(three[2]))
    left = stored(server, place)
    assert (left.count("web logins:"), left.count("web links:")) == (1, 1), "what is over is deleted"


async def test_a_link_of_one_gateway_lets_in_once_at_any(
    three: Sequence[Replica], server: Server, place: PostgresPlace
) -> None:
    link = await logins(three[0]).link(ANN.key, owner=False)
    assert SECRET.fullmatch(link) and link not in stored(server, place)
    shown = await browser().to(three[1]).post("/web/login/link", {"link": link})
    assert shown.said["person"] == ANN.key, "looking does not use it up"
    tries = [browser().to(each).post("/web/login", {"link": link}) for each in three]
    assert sorted([heard.status for heard in await asyncio.gather(*tries)]) == [200, 401, 401]


async def test_the_owner_of_one_machine_makes_no_owner_of_a_page_on_another(
    server: Server, folder: Path, model: EchoModel
) -> None:
    owner = Actor("tui:here", "socket", owner=True)
    place, own = fresh_place(server), lambda: {"http": {"port": free_port(), "web": True}}
    async with replicas(place, folder / "two", model.url, 2, own) as (one, two), asyncio.timeout(90):
        page = Moving(port_of(one))
        code, secret = await asked(page)
        assert "open on another machine" in (await two.say(f"/approve {code}", actor=owner, session="tui:here")).text
        assert (await one.say(f"/approve {code}", actor=owner, session="tui:here")).text.startswith("Signed in as tui:")
        assert (await page.post("/web/login/wait", {"secret": secret})).said["admin"] is True
