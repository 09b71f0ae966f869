"""The files of deploy/replicas (gateways, Postgres, a proxy), as far as they can be tried without an engine."""

import os
import re
import subprocess
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import psycopg
import pytest
import yaml

from goclaw.common.config.load import load_config
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import RealClock
from goclaw.durable.store.postgres.database import open_schema
from goclaw.durable.store.postgres.ownership import END_SECONDS
from goclaw.program.app import GRACE_SECONDS
from tests import house
from tests.postgres import Server, programs, running

FOLDER = house.ROOT / "deploy" / "replicas"
COMPOSE = yaml.safe_load((FOLDER / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]


def test_three_gateways_have_time_to_hand_over_and_every_service_says_how_it_is() -> None:
    gateway = SERVICES["gateway"]
    assert gateway["deploy"]["replicas"] == 3
    grace = float(gateway["stop_grace_period"].removesuffix("s"))
    assert grace >= 30 and grace > GRACE_SECONDS + END_SECONDS
    # The gateway's stands in its image.
    assert "HEALTHCHECK" in (house.ROOT / "Dockerfile").read_text()
    assert {name for name, service in SERVICES.items() if "healthcheck" in service} == {"db", "proxy"}
    waits = {name: service.get("depends_on", {}) for name, service in SERVICES.items()}
    assert waits["gateway"]["db"] == waits["proxy"]["gateway"] == {"condition": "service_healthy"}


def test_secrets_are_files_and_no_gateway_shares_its_state_folder() -> None:
    assert all(secret == {"file": f"./secrets/{name}"} for name, secret in COMPOSE["secrets"].items())
    assert {name for service in SERVICES.values() for name in service.get("secrets", ())} == set(COMPOSE["secrets"])
    assert not re.search(r"(?i)password: ", (FOLDER / "docker-compose.yml").read_text().replace("PASSWORD_FILE: ", ""))
    assert SERVICES["gateway"]["volumes"] == ["/data", "shared:/data/shared"]
    # A new volume begins with the owner of the folder that the image has there.
    assert re.search(r"install .*--owner=goclaw .*/data/shared", (house.ROOT / "Dockerfile").read_text())


def test_no_other_container_can_get_the_address_of_the_proxy() -> None:
    [pool] = COMPOSE["networks"]["inside"]["ipam"]["config"]
    proxy = IPv4Address(SERVICES["proxy"]["networks"]["inside"]["ipv4_address"])
    assert proxy in IPv4Network(pool["subnet"])
    others = IPv4Network(pool["ip_range"])
    assert proxy not in others and others.subnet_of(IPv4Network(pool["subnet"]))


def test_their_configuration_is_read_and_fits_the_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(tmp_path))
    config = load_config(FOLDER / "config.yaml").config
    place = config.store_place
    assert isinstance(place, PostgresPlace) and "@db/" in place.url
    assert config.workspace_path.is_relative_to("/data/shared")
    proxy = SERVICES["proxy"]["networks"]["inside"]["ipv4_address"]
    assert [str(each) for each in config.http.trusted_proxies] == [f"{proxy}/32"]
    caddyfile = (FOLDER / "Caddyfile").read_text()
    assert f"dynamic a gateway {config.http.port}" in caddyfile


async def test_the_role_that_is_made_for_them_may_use_its_schema_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "store_password").write_text("o'clock\n")
    with running() as server:
        makes_the_role(server, tmp_path)
        place = PostgresPlace.of(server.url.replace("goclaw@", "app@").replace("/postgres", "/app"))
        async with open_schema(place, RealClock()) as database:
            assert (await database.use()).replicas == []
        with psycopg.connect(place.url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("CREATE TABLE public.more (id int)")


def makes_the_role(server: Server, folder: Path) -> None:
    """Run the script as the image of Postgres does, for another name: `goclaw` is the server's own role here."""
    script = folder / "role.sh"
    script.write_text(
        (FOLDER / "role.sh")
        .read_text()
        .replace("ROLE goclaw", "ROLE app")
        .replace("AUTHORIZATION goclaw", "AUTHORIZATION app")
    )
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE app")
    environment = {
        **os.environ,
        "PATH": f"{programs(server.major)}:{os.environ['PATH']}",
        "PGHOST": "127.0.0.1",
        "PGPORT": str(server.port),
        "POSTGRES_USER": "goclaw",
        "POSTGRES_DB": "app",
        "STORE_PASSWORD_FILE": str(folder / "store_password"),
    }
    done = subprocess.run(["sh", script], env=environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    with psycopg.connect(server.url, autocommit=True) as connection:
        [(stored,)] = connection.execute("SELECT rolpassword FROM pg_authid WHERE rolname = 'app'").fetchall()
        assert str(stored).startswith("SCRAM-SHA-256$")
