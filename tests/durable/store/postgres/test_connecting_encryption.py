"""The way to Postgres off this machine: verified TLS by default, for every connection; and no password in any word."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.supervise import background
from goclaw.durable.store.ownership import Lease
from goclaw.durable.store.postgres.beside import exists
from goclaw.durable.store.postgres.database import PostgresDatabase, open_schema
from goclaw.durable.store.postgres.ownership import PostgresOwnership
from goclaw.errors import StateError
from tests.acceptance.waiting import clock, eventually
from tests.durable.store.postgres.tls_proxy import TlsProxy, tls_proxy
from tests.parts import sql
from tests.postgres import Server

HOST = "db.example.org"
PASSWORD = "hunter2-of-the-test"


def place_of(proxy: TlsProxy, host: str = HOST, more: str = "") -> PostgresPlace:
    """A schema behind the proxy, by the name of a machine elsewhere; libpq connects to `hostaddr`."""
    schema = f"t_{secrets.token_hex(8)}"
    address = f"postgresql://goclaw@{host}:{proxy.port}/postgres?hostaddr=127.0.0.1&schema={schema}{more}"
    return PostgresPlace.of(address, SecretStr(PASSWORD))


@asynccontextmanager
async def refused(place: PostgresPlace) -> AsyncIterator[pytest.ExceptionInfo[StateError]]:
    """Both ways to open a store fail; the block looks at the error of the daemon's."""
    with pytest.raises(StateError) as failed:
        async with open_schema(place, clock):
            pytest.fail("opened")
    with pytest.raises(StateError) as beside:
        await asyncio.to_thread(exists, place)
    assert PASSWORD not in f"{failed.value!r} {beside.value!r}"
    yield failed


@pytest.mark.promise("P-postgres-encrypted")
async def test_off_this_machine_a_certificate_that_no_known_authority_gave_is_refused(
    server: Server, tmp_path: Path
) -> None:
    async with tls_proxy(tmp_path, server.port, HOST) as proxy, refused(place_of(proxy)) as failed:
        assert "certificate verify failed" in str(failed.value)
    assert proxy.plain == 0


async def test_a_certificate_of_another_machine_is_refused(server: Server, tmp_path: Path) -> None:
    async with tls_proxy(tmp_path, server.port, "other.example.org") as proxy:
        async with refused(place_of(proxy, more=f"&sslrootcert={proxy.authority}")) as failed:
            assert HOST in str(failed.value) and "other.example.org" in str(failed.value)
        assert proxy.plain == 0


async def test_a_server_that_offers_no_encryption_gets_no_word(server: Server, tmp_path: Path) -> None:
    async with tls_proxy(tmp_path, server.port, HOST, offers_tls=False) as proxy:
        async with refused(place_of(proxy)) as failed:
            assert "server does not support SSL" in str(failed.value)
        assert proxy.encrypted == proxy.plain == 0


class Worker:
    """A process that notes which sessions it worked on."""

    def __init__(self) -> None:
        self.done: list[str] = []

    async def work(self, lease: Lease) -> bool:
        self.done.append(lease.session)
        return True


@pytest.mark.promise("P-postgres-encrypted")
async def test_every_connection_of_a_process_is_verified_procrastinates_and_those_that_listen_too(
    server: Server, tmp_path: Path
) -> None:
    async with tls_proxy(tmp_path, server.port, HOST) as proxy:
        place, worker = place_of(proxy, more=f"&sslrootcert={proxy.authority}"), Worker()
        async with open_schema(place, clock) as database:
            ownership = PostgresOwnership(database, clock)
            async with background(ownership.run(worker.work), "a process"):
                await database.write(ownership.wanted("s"))
                await eventually(lambda: worker.done == ["s"])
                await database.read(sql("SELECT 1"))
                await eventually(lambda: proxy.encrypted >= 5)  # those that listen may be the last ones
        assert await asyncio.to_thread(exists, place)
        assert proxy.plain == 0 and proxy.encrypted >= 5


@pytest.mark.long
@pytest.mark.promise("P-postgres-encrypted")
async def test_no_log_has_the_password_while_connections_of_every_kind_fail(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("psycopg", "psycopg.pool", "procrastinate"):
        logging.getLogger(name).setLevel(logging.DEBUG)
    async with tls_proxy(tmp_path, server.port, HOST) as proxy:
        place, worker = place_of(proxy, more=f"&sslrootcert={proxy.authority}"), Worker()
        async with open_schema(place, clock) as database:
            ownership = PostgresOwnership(database, clock)
            async with background(ownership.run(worker.work), "a process"):
                await database.write(ownership.wanted("s"))
                await eventually(lambda: worker.done == ["s"])
                proxy.is_away = True
                with pytest.raises(StateError) as failed:
                    await _cut(database)
                assert PASSWORD not in repr(failed.value)
                await eventually(lambda: proxy.sent_away > 10 and "error connecting in 'pool" in caplog.text)
                proxy.is_away = False
    assert PASSWORD not in caplog.text
    assert PASSWORD not in repr(place) and PASSWORD not in str(place.shown)


async def _cut(database: PostgresDatabase) -> None:
    """End every connection of the process, and ask for new ones until that fails."""
    own = sql(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE application_name = :name AND pid <> pg_backend_pid()",
        name=database.application_name,
    )
    await database.read(own)
    for _ in range(100):
        await database.write(sql("SELECT set_config('a.b', 'c', true)"))
        await clock.sleep(0.05)
