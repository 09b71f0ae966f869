"""deploy/replicas/docker-compose.yml on a real engine: three gateways, Postgres, a proxy; and one that is killed."""

import json
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.engine import Engine
from tests.containers.project import Project

pytestmark = [pytest.mark.long, pytest.mark.containers, pytest.mark.timeout(1800)]
SECRETS = ("postgres_password", "store_password", "telegram_token")


class Replicas(Project):
    """The project, with passwords."""

    def set_secret(self, name: str, value: str) -> None:
        """Write a secret's file; a password is drawn where there is none."""
        super().set_secret(name, value or (secrets.token_hex(24) if name.endswith("password") else ""))


@pytest.fixture(scope="module")
def replicas(engine: Engine, checkout: Path) -> Iterator[Project]:
    with Replicas(engine, checkout / "deploy" / "replicas", SECRETS).running() as started:
        yield started


def ask_proxy(project: Project, path: str) -> int:
    """Return the status of a page behind the proxy, as a browser on the machine gets it."""
    asked = [
        "curl",
        "--insecure",
        "--silent",
        "--max-time",
        "20",
        "--output",
        "/dev/null",
        "--write-out",
        "%{http_code}",
    ]
    command = project.engine.enter(*asked, f"https://localhost{path}")
    return int(subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout)


def test_three_gateways_are_healthy_and_the_proxy_reaches_them(replicas: Project) -> None:
    assert len(replicas.containers()) == 3
    assert "You said: hello" in replicas.send("hello")
    assert ask_proxy(replicas, "/readyz") == 200


def test_each_gateway_knows_the_others_and_sees_the_same_workspace(replicas: Project) -> None:
    found = json.loads(replicas.inside("goclaw", "doctor", "--json"))
    assert not [finding for finding in found if finding["verdict"] == "problem"], found
    replicas.inside("sh", "-c", "echo shared > /data/shared/workspace/seen")
    for container in replicas.containers():
        assert (
            replicas.engine.run("docker", "exec", container, "cat", "/data/shared/workspace/seen").stdout == "shared\n"
        )


def test_a_gateway_that_is_killed_is_replaced(replicas: Project) -> None:
    first, second, third = replicas.containers()
    replicas.engine.run("docker", "kill", first)
    for container in (second, third):
        answer = replicas.engine.run("docker", "exec", container, "goclaw", "send", "still there?")
        assert "You said: still there?" in answer.stdout
    assert ask_proxy(replicas, "/readyz") == 200
    replicas.up()
    replicas.wait_healthy(first)


def test_a_changed_setting_counts_after_the_command_of_the_page(replicas: Project) -> None:
    replicas.shell("docker compose up --detach --wait --force-recreate gateway")
    assert len(replicas.containers()) == 3 and "You said: again" in replicas.send("again")
