"""Every command of docs/docker.md, of docs/replicas.md and of the heads of both compose files, but for those marked †.

The block of docs/docker.md about backups: `test_one_gateway`; its upgrade: `test_answers`.
"""

import asyncio
import re
import shutil
from collections.abc import Iterable
from itertools import count

import pytest

from tests.containers.engine import ROOT, Engine
from tests.containers.project import SEND_SECONDS, Project
from tests.containers.test_answers import ANN, on_host
from tests.containers.test_three_gateways import SECRETS, Replicas
from tests.docs.pages import pages
from tests.fake_telegram.server import FakeTelegram
from tests.terminal import open_terminal

pytestmark = [pytest.mark.long, pytest.mark.containers, pytest.mark.timeout(1800)]
(PAGE,) = (page for page in pages() if page.name == "docs/docker.md")
(REPLICAS,) = (page for page in pages() if page.name == "docs/replicas.md")
COMMAND = re.compile(r"(docker compose|echo|export|mkdir|printf|git|openssl|chmod|…) |scripts/pin-images")
SUBCOMMAND = "docker compose exec"
"""Named by the page, and no whole command."""
ELSEWHERE = "†"
"""Marks a command that needs another server, or a heading above such commands."""
NEEDS = re.compile(r"ollama|API_KEY|pin-images", re.IGNORECASE)
FILLED = (
    ("'<token of @BotFather>'", "''"),
    ("<your numeric id>", str(ANN)),
    ("… goclaw", "docker compose exec gateway goclaw"),
    # The terminal is tested by itself.
    (" exec gateway", " exec -T gateway"),
    # The lane is root anyway.
    ("sudo ", ""),
)
"""What a person writes in place of the page's words."""
NUMBERS = count(7)
"""A new person for each line."""
SEPARATE = re.compile(r"git |cd deploy/replicas|.* goclaw tui")
"""Cloning, pulling and entering a folder, for which the folder of the project stands; and the terminal."""
FOLLOW_SECONDS = 10


def commands(lines: Iterable[str]) -> list[str]:
    """Return the commands between backticks in these lines, without those of a line that is marked."""
    codes = [code for line in lines if ELSEWHERE not in line for code in re.findall(r"`([^`]+)`", line)]
    return [code for code in codes if COMMAND.match(code) and code != SUBCOMMAND]


def head_of(project: Project) -> list[str]:
    """Return the commands in the comment at the top of a compose file, without those below a marked line."""
    found, marked = [], False
    for line in (project.folder / "docker-compose.yml").read_text().partition("\nname:")[0].splitlines():
        if not line.startswith("#   "):
            marked = ELSEWHERE in line or (marked and line == "#")
        elif not marked:
            found.append(line[4:])
    return found


def carry_out(project: Project, command: str, token: str = "") -> None:
    """Run a command as a person does, where the gateways run; one that goes on for ever is ended after a while."""
    for words, filled in (*FILLED, ("<token>", token), ("<numeric id>", str(next(NUMBERS)))):
        command = command.replace(words, filled)
    if " exec " in command:
        project.compose("start")
        for container in project.containers():
            project.wait_healthy(container)
    if not re.search(r"logs( gateway)? -f|logs -f", command):
        project.shell(command)
        return
    followed = project.engine.run("timeout", str(FOLLOW_SECONDS), *command.split(), folder=project.folder, check=False)
    assert (followed.returncode, bool(followed.stdout)) == (124, True), f"{command}: {followed}"


def test_the_page_marks_what_needs_another_server() -> None:
    found = [line for line in PAGE.prose.splitlines() if any(COMMAND.match(c) for c in re.findall(r"`([^`]+)`", line))]
    assert len(found) > 15
    assert [line for line in found if NEEDS.search(line) and ELSEWHERE not in line] == []


async def test_every_other_command_of_the_page_works(project: Project) -> None:
    shutil.copy(ROOT / "users.json.example", project.folder / "users.json")
    async with FakeTelegram() as telegram:
        with project.settings(GOCLAW_TELEGRAM__BASE_URL=on_host(telegram.base_url)):
            await asyncio.to_thread(project.up)
            for command in commands(PAGE.prose.splitlines()):
                if not SEPARATE.match(command):
                    await asyncio.to_thread(carry_out, project, command, telegram.token)
    project.set_secret("telegram_token", "")
    await asyncio.to_thread(project.up)


async def test_the_terminal_opens(project: Project) -> None:
    words = ["docker", "compose", "exec", "gateway", "goclaw", "tui"]
    async with open_terminal(words, project.engine.environment | {"TERM": "xterm"}, folder=project.folder) as terminal:
        await terminal.until("connected", SEND_SECONDS)
        await terminal.type("hello terminal\r")
        await terminal.until("You said: hello terminal", SEND_SECONDS)


def test_a_folder_of_the_host_takes_the_place_of_the_volume(project: Project, engine: Engine) -> None:
    image = project.inspect(project.containers()[0])["Image"]
    folder = project.folder / "hosted"
    folder.mkdir()
    run = ("docker", "run", "--rm", "--volume", f"{folder}:/data", image)
    assert "Permission denied" in engine.run(*run, check=False).stderr
    engine.run("chown", "10001:10001", str(folder))
    assert "goclaw" in engine.run(*run, "--version").stdout.lower()
    engine.run(*run, "config", "check")


def test_an_image_of_ones_own_has_more_programs(project: Project, engine: Engine) -> None:
    lines = [*re.findall(r"`(FROM goclaw:dev|USER root|USER 10001:10001)`", PAGE.text)]
    assert lines == ["FROM goclaw:dev", "USER root", "USER 10001:10001"]
    lines.insert(2, "RUN apt-get update && apt-get install --yes --no-install-recommends jq")
    engine.run("docker", "build", "--tag", "goclaw:more", "-", text="\n".join(lines))
    assert engine.run("docker", "run", "--rm", "--entrypoint", "sh", "goclaw:more", "-c", "jq --version; id -u").stdout


@pytest.mark.parametrize("place", ["the page", "the compose file"])
def test_the_first_commands_start_a_gateway(project: Project, place: str) -> None:
    project.remove()
    shutil.rmtree(project.folder / "secrets")
    for command in PAGE.blocks()[0].text.splitlines() if place == "the page" else head_of(project):
        if not SEPARATE.match(command):
            carry_out(project, command)
    for container in project.containers():
        project.wait_healthy(container)


def test_the_first_commands_start_three_gateways_and_one_of_them_makes_a_backup(project: Project) -> None:
    project.remove()
    replicas = Replicas(project.engine, project.folder / "deploy" / "replicas", SECRETS)
    replicas.remove()
    try:
        for command in head_of(replicas):
            if not SEPARATE.match(command):
                carry_out(replicas, command)
        assert len(replicas.containers()) == 3
        assert [code for code in REPLICAS.codes() if COMMAND.match(code)] == [], "more to carry out"
        assert {"goclaw doctor", "goclaw backup"} <= set(REPLICAS.codes())
        replicas.inside("goclaw", "backup", "/data/backup.tar.gz")
    finally:
        replicas.remove()
