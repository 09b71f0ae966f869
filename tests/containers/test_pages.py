"""Every command of docs/docker.md and of the heads of both compose files, carried out in the order of the page."""

import asyncio
import re
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.containers.engine import HOST, ROOT, Engine
from tests.containers.project import Project
from tests.containers.test_three_gateways import SECRETS, Replicas
from tests.docs.pages import pages
from tests.terminal import open_terminal

pytestmark = [pytest.mark.long, pytest.mark.containers, pytest.mark.timeout(900)]
(PAGE,) = (page for page in pages() if page.name == "docs/docker.md")
COMMAND = re.compile(r"(docker|echo|export|mkdir|printf|git|…) |scripts/pin-images")
ELSEWHERE = "†"
"""Marks a command of the page that needs another server."""
NEEDS = re.compile(r"ollama|API_KEY|pin-images", re.IGNORECASE)
FILLED = (
    ("<token>", "1:tried"),
    ("<token of @BotFather>", "1:tried"),
    ("<your numeric id>", "5"),
    ("… goclaw", "docker compose exec gateway goclaw"),
    ("sudo ", ""),
)
"""What a person writes in place of the page's words. The lane is root anyway."""
BEGINNING = "docker compose exec"
NUMBERS = count(7)
"""A new person for each line."""
FOLLOWS = re.compile(r"logs( gateway)? -f|logs -f")
ELSEWHERE_TRIED = {
    "git clone <this repository> goclaw && cd goclaw": "the fixture's folder stands for it",
    "git pull && docker compose up --build --detach": "test_answers upgrades an earlier revision by it",
    "docker compose exec gateway goclaw tui": "test_the_terminal_opens types into it",
}


def page_lines() -> list[tuple[str, list[str]]]:
    """Return the lines of the page that have commands outside of blocks, with the commands."""
    lines = [(line, re.findall(r"`([^`]+)`", line)) for line in PAGE.prose.splitlines()]
    found = [(line, [code for code in codes if COMMAND.match(code) and code != BEGINNING]) for line, codes in lines]
    return [(line, commands) for line, commands in found if commands]


def head_of(compose: Path) -> list[str]:
    """Return the commands in the comment at the top of a compose file."""
    head = compose.read_text().partition("\nname:")[0]
    return [line[4:] for line in head.splitlines() if line.startswith("#   ")]


def carry_out(project: Project, command: str) -> None:
    """Run a command in a terminal, as a person does; one that goes on for ever is ended after a while."""
    for words, filled in FILLED:
        command = command.replace(words, filled)
    command = command.replace("<numeric id>", str(next(NUMBERS)))
    if " exec " in command:
        project.wait_healthy(project.containers()[0])
    follows = FOLLOWS.search(command)
    timed = f"timeout --foreground 15 {command}" if follows else command
    done = project.engine.run(
        "script", "--quiet", "--return", "--command", timed, "/dev/null", folder=project.folder, check=False
    )
    assert done.returncode == (124 if follows else 0), f"{command}\n{done.stdout}{done.stderr}"
    assert not follows or "GoClaw" in done.stdout, done.stdout


def test_the_page_marks_what_needs_another_server() -> None:
    lines = page_lines()
    assert len(lines) > 15
    assert [line for line, _ in lines if bool(NEEDS.search(line)) != (ELSEWHERE in line)] == []


def test_every_other_command_of_the_page_works(project: Project) -> None:
    shutil.copy(ROOT / "users.json.example", project.folder / "users.json")
    with project.settings(GOCLAW_TELEGRAM__BASE_URL=f"http://{HOST}:9"):
        for line, commands in page_lines():
            for command in commands:
                if ELSEWHERE not in line and command not in ELSEWHERE_TRIED:
                    carry_out(project, command)


async def test_the_terminal_opens(project: Project) -> None:
    await asyncio.to_thread(project.up)
    words = ["docker", "compose", "exec", "gateway", "goclaw", "tui"]
    async with open_terminal(words, project.engine.environment | {"TERM": "xterm"}, folder=project.folder) as terminal:
        await terminal.until("connected")
        await terminal.type("hello terminal\r")
        await terminal.until("You said: hello terminal")


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


@pytest.fixture
def fresh(engine: Engine, checkout: Path) -> Iterator[Project]:
    """A folder in which nothing has been started."""
    started = Project(engine, checkout)
    started.remove()
    yield started
    started.remove()


@pytest.mark.parametrize("place", ["the page", "the compose file"])
def test_the_first_commands_start_a_gateway(fresh: Project, place: str) -> None:
    head = head_of(fresh.folder / "docker-compose.yml")
    for command in PAGE.blocks()[0].text.splitlines() if place == "the page" else head:
        if not NEEDS.search(command) and command not in ELSEWHERE_TRIED:
            carry_out(fresh, command)
            if command.startswith("printf"):
                fresh.set_secret("telegram_token", "")
    fresh.wait_healthy(fresh.containers()[0])


def test_the_head_of_the_replicas_file_starts_three(engine: Engine, checkout: Path) -> None:
    started = Replicas(engine, checkout / "deploy" / "replicas", SECRETS)
    started.remove()
    try:
        for command in head_of(started.folder / "docker-compose.yml"):
            folder_is_open = command == "cd deploy/replicas"
            if not folder_is_open and not NEEDS.search(command):
                carry_out(started, command)
                if command.startswith("printf"):
                    Project.set_secret(started, "telegram_token", "")
        assert len(started.containers()) == 3
    finally:
        started.remove()
