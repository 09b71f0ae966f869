"""The page about Docker: what it marks, the terminal, a folder of the host, an image of one's own."""

import asyncio
import re

import pytest

from tests.containers.engine import Engine
from tests.containers.project import Project
from tests.docs.pages import pages
from tests.terminal import open_terminal

pytestmark = [pytest.mark.long, pytest.mark.containers, pytest.mark.timeout(900)]
(PAGE,) = (page for page in pages() if page.name == "docs/docker.md")
COMMAND = re.compile(r"(docker|echo|export|mkdir|printf|git|…) |scripts/pin-images")
ELSEWHERE = "†"
"""Marks a command of the page that needs another server."""
NEEDS = re.compile(r"ollama|API_KEY|pin-images", re.IGNORECASE)


def test_the_page_marks_what_needs_another_server() -> None:
    lines = [(line, re.findall(r"`([^`]+)`", line)) for line in PAGE.prose.splitlines()]
    found = [line for line, codes in lines if any(COMMAND.match(code) for code in codes)]
    assert len(found) > 15
    assert [line for line in found if NEEDS.search(line) and ELSEWHERE not in line] == []


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
