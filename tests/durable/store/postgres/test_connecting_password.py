"""The password of Postgres is read anew for each connection."""

import asyncio
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from goclaw.common.config.values import PostgresPlace
from goclaw.errors import DiskError
from tests.durable.store.postgres.test_database import keys, opened, session
from tests.postgres import running


def ask_for_passwords(hba: Path) -> None:
    hba.write_text(f"host all app 127.0.0.1/32 scram-sha-256\n{hba.read_text()}")


async def test_a_password_that_was_changed_is_read_again_for_a_new_connection(tmp_path: Path) -> None:
    file = tmp_path / "secrets" / "store_password"
    await asyncio.to_thread(file.parent.mkdir)
    file.write_text("old\n")
    with running() as server:
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("CREATE ROLE app LOGIN PASSWORD 'old'")
            admin.execute("CREATE SCHEMA goclaw AUTHORIZATION app")
            ask_for_passwords(Path(admin.execute("SHOW hba_file").fetchall()[0][0]))
            admin.execute("SELECT pg_reload_conf()")
            address = server.url.replace("goclaw@", "app@", 1)
            place = PostgresPlace.of(address, SecretStr("old"), tmp_path)
            async with opened(place) as found:
                await found.write(session("a"))
                admin.execute("ALTER ROLE app PASSWORD 'new'")
                admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")
                with pytest.raises(DiskError, match="secrets/store_password"):
                    await found.write(session("b"))
                file.write_text("new\n")
                await found.write(session("c"))
                assert await keys(found) == ["a", "c"]
